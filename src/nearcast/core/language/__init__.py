"""The filter language: CQL2 in text and JSON, seed C's XML, and three-valued evaluation."""

from nearcast.core.language.ast import Array as Array
from nearcast.core.language.ast import BBox as BBox
from nearcast.core.language.ast import Date as Date
from nearcast.core.language.ast import Geometry as Geometry
from nearcast.core.language.ast import Interval as Interval
from nearcast.core.language.ast import Node as Node
from nearcast.core.language.ast import Operation as Operation
from nearcast.core.language.ast import Property as Property
from nearcast.core.language.ast import Timestamp as Timestamp
from nearcast.core.language.errors import LanguageError as LanguageError
from nearcast.core.language.evaluation.scope import PropertiesScope as PropertiesScope
from nearcast.core.language.evaluation.scope import Scope as Scope
from nearcast.core.language.evaluation.scope import Value as Value
from nearcast.core.language.filter import Filter as Filter
from nearcast.core.language.filter import parse as parse
from nearcast.core.language.forms.xml_form import XmlSubscription as XmlSubscription
from nearcast.core.language.forms.xml_form import atoms as atoms
from nearcast.core.language.forms.xml_form import parse_xml as parse_xml
from nearcast.core.language.forms.xml_form import to_xml as to_xml
