"""The filter language: CQL2 in text and JSON, seed C's XML, and three-valued evaluation."""

from nearcast.core.language.ast import (
    Array,
    BBox,
    Date,
    Geometry,
    Interval,
    Node,
    Operation,
    Property,
    Timestamp,
)
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.evaluation.scope import PropertiesScope, Scope, Value
from nearcast.core.language.filter import Filter, parse
from nearcast.core.language.forms.xml_form import XmlSubscription, atoms, parse_xml, to_xml

__all__ = [
    "Array",
    "BBox",
    "Date",
    "Filter",
    "Geometry",
    "Interval",
    "LanguageError",
    "Node",
    "Operation",
    "PropertiesScope",
    "Property",
    "Scope",
    "Timestamp",
    "Value",
    "XmlSubscription",
    "atoms",
    "parse",
    "parse_xml",
    "to_xml",
]
