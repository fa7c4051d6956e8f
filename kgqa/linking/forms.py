"""Other forms in which a question writes a name: articles, plurals, abbreviations, adjectives.

Every form is looked up exactly, so they work alike in every store. What it does not do: fuzzy
matching, or telling which form is meant; ``kgqa.linking.linker`` weighs them below the text as it
stands.
"""

from __future__ import annotations

from kgqa.linking.partial import folded

_ABBREVIATIONS = {
    "us": ("united states", "united states of america"),
    "u s": ("united states", "united states of america"),
    "usa": ("united states", "united states of america"),
    "u s a": ("united states", "united states of america"),
    "america": ("united states", "united states of america"),
    "american": ("united states", "united states of america"),
    "united states": ("united states of america",),
    "united states of america": ("united states",),
    "uk": ("united kingdom",),
    "u k": ("united kingdom",),
    "britain": ("united kingdom", "great britain"),
    "british": ("united kingdom", "great britain"),
    "un": ("united nations",),
    "eu": ("european union",),
    "ussr": ("soviet union",),
    "uae": ("united arab emirates",),
    "ny": ("new york", "new york city"),
    "nyc": ("new york city",),
    "new york": ("new york city",),
    "la": ("los angeles",),
    "dc": ("washington d c",),
    "wwi": ("world war i",),
    "ww1": ("world war i",),
    "wwii": ("world war ii",),
    "ww2": ("world war ii",),
    "jfk": ("john f kennedy",),
    "fdr": ("franklin d roosevelt",),
}
_WORD_ABBREVIATIONS = {
    "st": "saint",
    "saint": "st",
    "mt": "mount",
    "mount": "mt",
    "dr": "doctor",
    "ft": "fort",
    "fort": "ft",
    "jr": "junior",
    "ny": "new york",
    "la": "los angeles",
}
# Each line: the country or place, then its people's names and adjectives.
_DEMONYMS = """
afghanistan: afghan afghans; albania: albanian albanians; algeria: algerian algerians
argentina: argentine argentinian argentines; armenia: armenian armenians
australia: australian australians; austria: austrian austrians; azerbaijan: azerbaijani
bangladesh: bangladeshi; belarus: belarusian belarusians; belgium: belgian belgians
bolivia: bolivian bolivians; brazil: brazilian brazilians; bulgaria: bulgarian bulgarians
cambodia: cambodian cambodians; cameroon: cameroonian; canada: canadian canadians
chile: chilean chileans; china: chinese; colombia: colombian colombians; croatia: croatian
cuba: cuban cubans; cyprus: cypriot cypriots; czech republic: czech czechs; denmark: danish danes
dominican republic: dominican dominicans; ecuador: ecuadorian; egypt: egyptian egyptians
england: english; estonia: estonian; ethiopia: ethiopian ethiopians; fiji: fijian fijians
finland: finnish finns; france: french; georgia: georgian georgians; germany: german germans
ghana: ghanaian; greece: greek greeks; guatemala: guatemalan; haiti: haitian haitians
hungary: hungarian hungarians; iceland: icelandic; india: indian indians
indonesia: indonesian indonesians; iran: iranian iranians persian; iraq: iraqi iraqis
ireland: irish; israel: israeli israelis; italy: italian italians; jamaica: jamaican jamaicans
japan: japanese; jordan: jordanian; kazakhstan: kazakh; kenya: kenyan kenyans; laos: laotian lao
latvia: latvian; lebanon: lebanese; libya: libyan libyans; lithuania: lithuanian
malaysia: malaysian malaysians; malta: maltese; mexico: mexican mexicans; mongolia: mongolian
morocco: moroccan; nepal: nepalese nepali; netherlands: dutch; new zealand: kiwi
nicaragua: nicaraguan; nigeria: nigerian nigerians; north korea: north korean
norway: norwegian norwegians; pakistan: pakistani pakistanis; palestine: palestinian
panama: panamanian; paraguay: paraguayan; peru: peruvian peruvians
philippines: filipino filipinos philippine; poland: polish poles; portugal: portuguese
romania: romanian romanians; russia: russian russians; saudi arabia: saudi saudis
scotland: scottish scots; senegal: senegalese; serbia: serbian serbs; singapore: singaporean
slovakia: slovak; slovenia: slovenian; somalia: somali; south africa: south african
south korea: south korean; spain: spanish; sri lanka: sri lankan; sudan: sudanese
sweden: swedish swedes; switzerland: swiss; syria: syrian syrians; taiwan: taiwanese
tanzania: tanzanian; thailand: thai thais; tunisia: tunisian; turkey: turkish turks
uganda: ugandan; ukraine: ukrainian ukrainians; uruguay: uruguayan; venezuela: venezuelan
vietnam: vietnamese; wales: welsh; yemen: yemeni; zambia: zambian; zimbabwe: zimbabwean
"""
_PLACES: dict[str, str] = {
    demonym: place.strip()
    for entry in _DEMONYMS.replace("\n", ";").split(";")
    if entry.strip()
    for place, _, demonyms in [entry.partition(":")]
    for demonym in demonyms.split()
}
# two-word demonyms stand whole
_PLACES |= {"north korean": "north korea", "south korean": "south korea"}
_PLACES |= {"south african": "south africa", "sri lankan": "sri lanka"}
for _half in ("north", "south", "african", "korean", "sri", "lankan"):
    _PLACES.pop(_half, None)
# What belongs to a religion, and the religion.
_RELIGIONS: dict[str, tuple[str, ...]] = {
    "islamic": ("islam",),
    "muslim": ("islam",),
    "christian": ("christianity",),
    "catholic": ("catholicism", "catholic church"),
    "protestant": ("protestantism",),
    "jewish": ("judaism",),
    "buddhist": ("buddhism",),
    "hindu": ("hinduism",),
    "sikh": ("sikhism",),
    "taoist": ("taoism",),
    "shinto": ("shintoism",),
}
_RELIGIONS |= {
    f"{word}s": religions
    for word, religions in _RELIGIONS.items()
    if not word.endswith(("ic", "h"))
}
# Adjectives that name a language too ("who speaks Danish").
_NO_LANGUAGE = frozenset(
    ("american", "british", "swiss", "brazilian", "mexican", "canadian", "australian", "austrian")
)
_UNLIKELY = 0.75  # that a people's word means its language, where the question is not about one
_HARDLY = 0.2  # that it means the country, where the question is about its language


def place_of(form: str) -> str | None:
    """Return the place whose people or things ``form`` (normalised) describes.

    >>> place_of("peruvian")
    'peru'
    """
    return _PLACES.get(form)


def is_abbreviation(form: str) -> bool:
    """Return whether ``form`` (normalised) abbreviates a well-known name ("us", "un")."""
    return form in _ABBREVIATIONS


def other_forms(form: str, *, language: bool = False) -> dict[str, float]:
    """Return other normalised names that ``form`` may stand for, with a likelihood in 0..1.

    ``language`` says that the question is about a language: then "german" stands rather for the
    language than for the country.

    >>> other_forms("german")
    {'germany': 1.0, 'german language': 0.75, 'germans': 1.0, 'the german': 1.0}
    """
    found: dict[str, float] = dict.fromkeys(_ABBREVIATIONS.get(form, ()), 1.0)
    found |= dict.fromkeys(_RELIGIONS.get(form, ()), 1.0)
    place = _PLACES.get(form)
    if language and form not in _NO_LANGUAGE and " " not in form:
        found[f"{form} language"] = 1.0
    if place is not None:
        found[place] = _HARDLY if language else 1.0
        if form not in _NO_LANGUAGE:
            found.setdefault(f"{form} language", _UNLIKELY)
    words = form.split()
    for position, word in enumerate(words):
        full = _WORD_ABBREVIATIONS.get(word)
        if full is not None and len(words) > 1:
            found[" ".join([*words[:position], full, *words[position + 1 :]])] = 1.0
    plain = folded(form)
    if plain != form:
        found.setdefault(plain, 1.0)
    if " of " in form and " of the " not in form:
        found.setdefault(form.replace(" of ", " of the ", 1), 1.0)
    last = words[-1] if words else ""
    if len(last) > 3 and last.isascii():
        singular = last[:-1] if last.endswith("s") and not last.endswith("ss") else None
        found.setdefault(" ".join([*words[:-1], singular or f"{last}s"]), 1.0)
    if words and words[0] != "the":
        found.setdefault(f"the {form}", 1.0)
    found.pop(form, None)
    return found
