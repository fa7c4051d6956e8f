"""Words that a question is made of rather than about, as data.

``FUNCTION`` words never make a mention by themselves ("who is the"); ``COMMON`` words may name an
entity but seldom do in a question ("name", "film", "capital"), so a lower-case mention of nothing
else is marked down. English and the bare question words of a few other languages; what it does
not do: stem, tag parts of speech, or know any entity. All are in the form of
:func:`kgqa.graph.store.normalise`.
"""

from __future__ import annotations

_FUNCTION = """
a an the this that these those some any each every all both either neither no not such same other
others another
i me my mine you your yours he him his she her hers it its we us our ours they them their theirs
myself yourself himself herself itself themselves one ones
who whom whose what which when where why how whoever whatever whichever wherever
am is are was were be been being do does did done doing don doesn didn isn aren wasn weren
have has had having haven hasn hadn can could will would shall should may might must ll ve re
and or but if then than so as at by for from in into of off on onto out over per to toward towards
under until up upon via with within without about above across after against along among around
before behind below beneath beside besides between beyond down during except inside like near
outside since through throughout
there here now also too very just only even still yet ever never always often again ago
s t d m st nd rd th
qui que quoi quel quelle quels quelles est sont était le la les un une des du de et ou où dans par
pour avec wer was wo wann welche welcher welches ist sind der die das den dem ein eine einen und
oder von mit für quién qué cuál dónde cuándo es son el los las una del y en con chi che cosa quale
dove quando sono il lo gli di per quem qual onde
"""

_COMMON = """
name names named call calls called known famous kind kinds type types sort sorts form forms many
much more most few first last second third next new old current currently present today time times
year years month months week day days date dates age century number numbers list part parts place
places thing things people person persons man men woman women kid kids child children son sons
daughter daughters brother brothers sister sisters father fathers mother mothers dad mom parent
parents wife wives husband husbands spouse spouses partner partners family families relative
relatives girlfriend boyfriend friend friends baby siblings sibling
country countries nation nations state states city cities town towns village villages county
counties province provinces district districts region regions area areas continent continents
capital capitals island islands river rivers lake lakes sea seas ocean oceans mountain mountains
border borders airport airports zone zones timezone timezones zip code codes location locations
located lies locate headquarters headquarter headquartered home house street north south east west
northern southern eastern western
language languages speak speaks spoken speaking currency currencies money religion religions
religious government governments president presidents king queen prime minister ministers governor
governors mayor mayors senator senators leader leaders leadership emperor prince princess
politician politicians political party parties election elections vote representative
representatives official officials office position positions title titles role roles
film films movie movies book books song songs album albums show shows series episode episodes
music musical band bands singer singers artist artists actor actors actress actresses director
directors directed directs direct writer writers author authors written write writes wrote
screenwriter screenplay genre genres character characters cast stars star starred starring plot
topic topics novel novels poem poems poet poetry play plays played player players playing voice
voices voiced song sing sings sang sung theme instrument instruments guitar style art arts painting
painted paint painter game games
team teams sport sports league season seasons coach coaches coached championship championships
super bowl world cup series mascot stadium win wins won winner winning lose loses lost final finals
champion champions rookie draft drafted score record records trophy medal medals
school schools university universities college colleges education educated degree degrees study
studied studies attend attended attends graduate graduated major student students teach taught
work works worked working job jobs career occupation occupations profession company companies
business organization organizations founder founders founded found find finds own owns owned owner
owners product products produce produced produces producer producers make makes made maker build
built create created creates creator invent invented inventor invention inventions discover
discovered discovery discoveries design designed develop developed
live lives lived living life born birth birthday birthplace die dies died dead death deaths kill
killed killing killer assassinated bury buried marry married marries marriage divorce divorced
dating date dated cause caused causes disease cancer grow grew raised come comes came go goes went
gone get gets got give gives gave take takes took taken bring brought begin began begins start
started starts end ended ends stop become becomes became happen happened happens occur occurred
join joined leave left lead leads led serve served serves hold holds held keep kept stand stands
stay stayed move moved moving run runs ran fight fought fights rule ruled reign reigned fall fell
use uses used using see saw seen look say said says tell told know knows think believe believed
believe like liked love loved want wanted help need needed follow followed include included
includes includes including contain contains contained belong belongs represent represented
represents mean means meant influence influenced influences inspire inspired accomplish
accomplished accomplishments compete competed sell sells sold buy bought pay paid trade traded
export exports import imports publish published publishes released release releases air aired
originate originated establish established host hosted hosts share shares shared serve surround
surrounding belief beliefs symbol symbols flag flags anthem motto slogan nickname nicknames color
colors colour colours real full big bigger biggest large larger largest small smallest great
greatest good best better popular main important common high highest long longest short shortest
tall tallest deep deepest oldest youngest early late later original originally primary official
native modern ancient former different right left true false happy fun white black red blue green
war wars battle battles army law laws court system systems power powers event events history
culture food drink religion god gods holiday holidays attraction attractions tourist sights sight
visit site sites point points high university term terms currency amount size population weather
climate temperature distance height weight length speed cost price value percentage rate
show shown shows appear appears appeared acted act acts won win wins nominated award awards
answer answers question questions word words letter letters example examples please
base based bases compose composed composes composer composers source sources judge judges appointed
appoint shot shoot shoots soldier soldiers case cases group groups station stations campus tomb
conflict conflicts originally officially currently usually corporate corporation operate operates
operated practice practiced practices accept accepted engaged foundation well describe described
explain mention mentioned involve involved cover covers covered accompany cross crosses flow flows
feature featured features focus focuses win teach wear wears wore eat ate sit sits situated spend
spent suffer suffered treat treated sail sailed explore explored explorer travel traveled vacation
pass passed sign signed elect elected resign resigned succeed succeeded replace replaced receive
received earn earned won gain gained attack attacked invade invaded beat beats defeat defeated
arrested convicted accused charge charged lie sleep walk walked wed wedding retire retired practise
located found scored score network networks channel channels website sites newspaper newspapers
magazine magazines edition editions version versions publisher publishers university prior recent
recently latest newest vice head chief minimum maximum range wage wages
captain sir dame lord lady pope prophet general colonel professor doctor chairman secretary saint
ancestors ancestor descendants heir heirs successor predecessor
"""
_UNSPACED_FUNCTION = "的 了 是 在 和 与 谁 什么 哪里 哪儿 哪个 哪些 多少 怎么 は が を に の と も"

FUNCTION = frozenset(_FUNCTION.split())
COMMON = frozenset(_COMMON.split()) - FUNCTION
# One letter of a script written without spaces carries nothing by itself; these carry no entity.
UNSPACED_FUNCTION = frozenset(_UNSPACED_FUNCTION.split())

_SAID_OTHERWISE = """
film: movie movies films cinema; starring: star stars starred starring acted acts act actor actors
actress actresses cast; directed: director directors; written: write writes wrote writer writers
author authors; birth: born birthday birthplace; death: die died dies dead killed;
spouse: married marry wife wives husband husbands; music: song songs album albums band bands sing
sang sings sung singer singers musician; children: child kid kids son sons daughter daughters;
parents: parent mother father mom dad; language: languages speak speaks spoken speaking;
currency: money currencies; character: play played plays role roles; education: school schools
college university study studied attend attended; religion: believe belief beliefs worship;
sports: sport team teams league coach season championship; capital: capitals;
government: president minister governor senator mayor leader; tv: television show shows episode
episodes; book: books novel novels; location: located place places where; country: nation nations
"""
# The word of KGs for what people say otherwise: "movie" is "film".
SYNONYMS: dict[str, str] = {
    word: meant.strip()
    for entry in _SAID_OTHERWISE.replace("\n", " ").split(";")
    if entry.strip()
    for meant, _, words in [entry.partition(":")]
    for word in words.split()
}
