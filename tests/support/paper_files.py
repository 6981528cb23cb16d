"""Seed C's files as printed: Listings 6-1 and 7-6 lack or repeat tags, 7-1 has a value too many.

Listing 1 of Appendix A is Listing 6-1 with empty operators; here its tags are closed.
"""

UNITS = """    <ATOM name="type" operator="=" value="document"/>
      <ATOM name="type" operator="=" value="time"/>
      <ATOM name="type" operator="=" value="overlay"/>
      <ATOM name="type" operator="=" value="chat"/>
    </LOGICAL_OPERATOR>
"""
SIDES = """<LOGICAL_OPERATOR value="OR">
      <ATOM name="affiliation" operator="=" value="H"/>
      <ATOM name="affiliation" operator="=" value="F"/>
      <ATOM name="affiliation" operator="=" value="N"/>
    </LOGICAL_OPERATOR>
"""
LISTING_6_1 = f"""<SUBSCRIPTION filename="subscription.xml">
  <LOGICAL_OPERATOR value="OR">
    <LOGICAL_OPERATOR value="OR">
  {UNITS}  <LOGICAL_OPERATOR value="AND">
    <ATOM name="type" operator="=" value="unit"/>
    {SIDES}  </LOGICAL_OPERATOR>
</SUBSCRIPTION>
"""
APPENDIX_A_LISTING_1 = LISTING_6_1.replace('operator="="', 'operator=""').replace(
    "</SUBSCRIPTION>", "</LOGICAL_OPERATOR></SUBSCRIPTION>"
)
LISTING_7_1 = "<SERVERLIST>\n" + "".join(
    f'  <SERVER hostname="128.6.237.{host}" port="{port}" name="{name}" '
    'value="0.9 0.9 0.9 0.9 0.9 0.9 0.9 0.9 0.9"/>\n'
    for host, port, name in ((92, 5000, 1), (92, 5300, 2), (61, 5500, 3))
)
LISTING_7_1 += "</SERVERLIST>\n"
LISTING_7_6 = f"""<SUBSCRIPTION filename="test2.xml">
  <LOGICAL_OPERATOR value="OR">
    <LOGICAL_OPERATOR value="OR">
  {UNITS}    <LOGICAL_OPERATOR value="AND">
      <ATOM name="type" operator="=" value="unit"/>
      <ATOM name="distance" operator="&lt;=" value="150">
        <PARAMETER name="user" properties="username=user1"/>
        <PARAMETER name="this" properties=""/>
      </ATOM>
    </LOGICAL_OPERATOR>
  </LOGICAL_OPERATOR>
  {SIDES}</LOGICAL_OPERATOR>
</SUBSCRIPTION>
"""
