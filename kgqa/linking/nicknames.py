"""First names and the short or pet forms that English writes for them, as data.

What it does not do: know any person; a well-known by-name belongs into the KG as an alias.
"""

from __future__ import annotations

# Each line: forms of one name.
_SETS = """
abraham abe; albert al bert; alexander alex alec sasha; alfred alf fred; andrew andy drew
anthony tony; antonio tony; arthur art; barbara barb; benjamin ben benny; bernard bernie
catherine katherine kathryn kate kathy cathy katie kat; charles charlie chuck chas
christine christina chris tina; christopher chris kit; clifford cliff; cynthia cindy
daniel dan danny; david dave davy; deborah debbie deb; dennis denny; donald don donnie
dorothy dot dottie; douglas doug; edward ed eddie ted ned; edwin ed; eleanor ellie nell
elizabeth liz beth betty eliza lizzie bess; eugene gene; frances fran; francis frank
franklin frank; frederick fred freddie; gabriel gabe; gerald gerry jerry; gregory greg
harold harry hal; henry hank harry hal; isaac ike; jacob jake; jacqueline jackie
james jim jimmy jamie; janet jan; jeffrey jeff; jennifer jen jenny; jeremy jerry
jerome jerry; john jack johnny jon; jonathan jon; joseph joe joey; joshua josh
judith judy; kenneth ken kenny; lawrence larry; leonard leo len lenny; louis lou
margaret maggie meg peggy marge; martin marty; mary molly polly; matthew matt; maxwell max
michael mike mick mickey; nathaniel nathan nate nat; nicholas nick nicky; pamela pam
patricia pat patty; patrick pat paddy; peter pete pyotr; philip phil; phillip phil
ralph ralphie; raymond ray; rebecca becky; reginald reggie; richard rich rick dick ricky
robert rob bob bobby robbie; ronald ron ronnie; rudolph rudy; russell russ; samuel sam sammy
sandra sandy; sidney sid; stephen steven steve; stuart stu; susan sue susie; terence terry
theodore ted teddy; thomas tom tommy; timothy tim; ulysses uly; victor vic; victoria vicky
vincent vin vince vinnie; vin vince; virginia ginny; walter walt wally; wilhelm william
william bill billy will willy liam; zachary zach zack
"""
_FORMS: dict[str, set[str]] = {}
for _line in _SETS.replace("\n", ";").split(";"):
    _first, *_others = _line.split() or [""]
    for _other in _others:
        _FORMS.setdefault(_other, set()).add(_first)


def same_person(word: str, other: str) -> bool:
    """Return whether one normalised first name may be written for the other.

    >>> same_person("teddy", "theodore"), same_person("ted", "abraham")
    (True, False)
    """
    return other in _FORMS.get(word, ()) or word in _FORMS.get(other, ())
