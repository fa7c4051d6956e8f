"""What the Freebase sample is built around: topics, and facts about them that are common knowledge.

Aliases, names in other languages and Wikipedia keys are those that everybody knows; Freebase held
them too. The skipped and broken lines have the forms that real dumps have.
"""

TOPICS = """
Angelina Jolie; Brad Pitt; Morgan Freeman; Scarlett Johansson; Matt Damon; Sean Connery
Tom Hanks; Johnny Depp; Jennifer Lawrence; Kristen Stewart; Robert Pattinson; Ryan Gosling
Marlon Brando; Marilyn Monroe; Charlie Chaplin; George Lucas; Ron Howard; Spike Lee; Walt Disney
Adam Sandler; Robin Williams; Tom Cruise; Robert De Niro; Nicolas Cage; Anne Hathaway
Reese Witherspoon; Mila Kunis; Seth MacFarlane; Daniel Craig; Ben Stiller; Avatar
The Lord of the Rings: The Fellowship of the Ring; Forrest Gump
The Lord of the Rings: The Return of the King; The Dark Knight Rises; Skyfall; Apollo 13
Twilight; The Hunger Games: Catching Fire; Harry Potter and the Goblet of Fire
The Social Network; The Giver; Harry Potter and the Philosopher's Stone
Star Wars Episode I: The Phantom Menace; Big Fish; Edward Scissorhands; A Beautiful Mind
The Sixth Sense; Erin Brockovich; Changeling; Lost in Translation; American Graffiti
Children of Men; The Color Purple; Unbroken; Indiana Jones and the Last Crusade; Iron Man 2
In the Land of Blood and Honey; Dreamgirls; Family Guy; South Park; NCIS; Smallville; The Office
Sex and the City; Stewie Griffin; Darth Vader; J. R. R. Tolkien; J. K. Rowling; Charles Dickens
Mark Twain; Agatha Christie; Ernest Hemingway; F. Scott Fitzgerald; William Shakespeare
Edgar Allan Poe; Mary Shelley; Tennessee Williams; Kate Chopin; T. S. Eliot; James Baldwin
Suzanne Collins; Anne Frank; Michael Jackson; Elvis Presley; Taylor Swift; Justin Bieber
Rihanna; Beyoncé Knowles; Jay-Z; Eminem; Michael Bublé; Miley Cyrus; John Lennon; Paul McCartney
Ringo Starr; Pink Floyd; David Gilmour; Roger Waters; Madonna; Cher; Ludwig van Beethoven
Kurt Cobain; Wolfgang Amadeus Mozart; Pyotr Ilyich Tchaikovsky; Louis Armstrong; Fela Kuti
The Beatles; Selena Gomez; Sheryl Crow; Antonio Vivaldi; Claude Debussy; Tupac Shakur; Van Halen
Barack Obama; John F. Kennedy; Robert F. Kennedy; Abraham Lincoln; George Washington
Bill Clinton; Thomas Jefferson; John Adams; Franklin D. Roosevelt; Theodore Roosevelt
Richard Nixon; Ronald Reagan; George W. Bush; Martin Luther King, Jr.; Harry S. Truman
Andrew Jackson; Eleanor Roosevelt; Benjamin Franklin; Hillary Rodham Clinton; Elizabeth II
Henry VIII of England; Nicolas Sarkozy; Woodrow Wilson; Joseph P. Kennedy, Sr.
Jacqueline Kennedy Onassis; Albert Einstein; Isaac Newton; Charles Darwin; Stephen Hawking
Nikola Tesla; Galileo Galilei; Gregor Mendel; Carl Linnaeus; Thomas Edison; Leonardo da Vinci
Pablo Picasso; Claude Monet; Frida Kahlo; Henri Matisse; Andy Warhol; Jackson Pollock
Helen Keller; Michael Jordan; Kobe Bryant; LeBron James; Shaquille O'Neal; David Beckham
Cristiano Ronaldo; Lionel Messi; Peyton Manning; Rafael Nadal; Wayne Gretzky; Jackie Robinson
Albert Pujols; Drew Brees; Jesse Owens; Scottie Pippen; Ronaldinho; Dennis Rodman
Manchester United F.C.; FC Barcelona; Real Madrid C.F.; Liverpool F.C.; Arsenal F.C.
Los Angeles Lakers; Boston Celtics; Chicago Bulls; Cleveland Cavaliers; New York Yankees
St. Louis Cardinals; Pittsburgh Steelers; Dallas Cowboys; New York Giants
New Orleans Saints; Denver Broncos; Indianapolis Colts; Chicago Cubs; United States of America
United Kingdom; France; Germany; Spain; Italy; Japan; China; Russia; Canada; Brazil; Mexico
Jamaica; Egypt; Portugal; Argentina; New Zealand; Australia; India; Greece; Switzerland; Austria
England; New York City; London; Paris; Rome; San Francisco; Los Angeles; Chicago; Toronto
Vienna; Madrid; Barcelona; Sydney; Beijing; Amsterdam; Washington, D.C.; Atlanta; Houston
Hawaii; California; Texas; Mississippi River; Google; Nike, Inc.; Sony Corporation
Harvard University; University of Oxford; Princeton University; New York University
Columbia University; European Union; United Nations; World War II
"""

# Looked up by name, and only where the sample holds one entity of that name, unless a mid is given.
ALIASES = {
    "United States of America": ["USA", "US", "United States", "America"],
    "United Kingdom": ["UK", "Great Britain"],
    "New York City": ["NYC", "New York, New York"],
    "Los Angeles": ["LA", "City of Angels"],
    "San Francisco": ["SF", "Frisco"],
    "Washington, D.C.": ["Washington DC", "District of Columbia"],
    "Australia@m.0chghy": ["Commonwealth of Australia"],
    "Netherlands": ["Holland", "the Netherlands"],
    "Russia": ["Russian Federation"],
    "China": ["People's Republic of China", "PRC"],
    "European Union": ["EU"],
    "United Nations": ["UN"],
    "John F. Kennedy": ["JFK", "John Fitzgerald Kennedy", "President Kennedy"],
    "Robert F. Kennedy": ["RFK", "Bobby Kennedy"],
    "Franklin D. Roosevelt": ["FDR", "Franklin Delano Roosevelt"],
    "Theodore Roosevelt": ["Teddy Roosevelt"],
    "Martin Luther King, Jr.": ["MLK", "Martin Luther King"],
    "Barack Obama": ["Barack Hussein Obama II", "President Obama"],
    "Abraham Lincoln": ["Abe Lincoln", "Honest Abe"],
    "Bill Clinton": ["William Jefferson Clinton"],
    "Hillary Rodham Clinton": ["Hillary Clinton"],
    "Jacqueline Kennedy Onassis": ["Jackie Kennedy"],
    "Elizabeth II": ["Queen Elizabeth II"],
    "Henry VIII of England": ["Henry VIII", "King Henry VIII"],
    "J. R. R. Tolkien": ["Tolkien", "John Ronald Reuel Tolkien"],
    "J. K. Rowling": ["Joanne Rowling"],
    "Mark Twain": ["Samuel Langhorne Clemens"],
    "William Shakespeare": ["Shakespeare"],
    "Edgar Allan Poe": ["Poe"],
    "F. Scott Fitzgerald": ["Francis Scott Fitzgerald"],
    "Charles Dickens": ["Dickens"],
    "Albert Einstein": ["Einstein"],
    "Isaac Newton": ["Sir Isaac Newton"],
    "Leonardo da Vinci": ["da Vinci"],
    "Pablo Picasso": ["Picasso"],
    "Claude Monet": ["Monet"],
    "Ludwig van Beethoven": ["Beethoven"],
    "Wolfgang Amadeus Mozart": ["Mozart"],
    "Pyotr Ilyich Tchaikovsky": ["Tchaikovsky"],
    "Antonio Vivaldi": ["Vivaldi"],
    "Beyoncé Knowles": ["Beyoncé", "Beyonce"],
    "Elvis Presley": ["Elvis", "The King"],
    "Michael Jackson": ["King of Pop"],
    "Tupac Shakur": ["2Pac"],
    "Eminem": ["Slim Shady", "Marshall Mathers"],
    "Ringo Starr": ["Richard Starkey"],
    "Shaquille O'Neal": ["Shaq"],
    "LeBron James": ["King James"],
    "Manchester United F.C.": ["Man United", "Manchester United"],
    "FC Barcelona": ["Barça", "Barcelona FC"],
    "Real Madrid C.F.": ["Real Madrid"],
    "Arsenal F.C.": ["Arsenal"],
    "Liverpool F.C.": ["Liverpool FC"],
    "Los Angeles Lakers": ["LA Lakers", "Lakers"],
    "St. Louis Cardinals": ["Cardinals"],
    "Pittsburgh Steelers": ["Steelers"],
    "New York Yankees": ["Yankees"],
    "Boston Celtics": ["Celtics"],
    "Nike, Inc.": ["Nike"],
    "Sony Corporation": ["Sony"],
    "University of Oxford": ["Oxford University"],
    "Harvard University": ["Harvard"],
    "World War II": ["WWII", "Second World War", "World War 2"],
    "American Civil War": ["US Civil War"],
    "The Lord of the Rings: The Fellowship of the Ring": ["The Fellowship of the Ring (film)"],
    "Star Wars Episode I: The Phantom Menace": ["The Phantom Menace"],
    "Harry Potter and the Philosopher's Stone": ["Harry Potter and the Sorcerer's Stone"],
    "English Language": ["English"],
    "Spanish Language": ["Spanish"],
    "Portuguese Language": ["Portuguese"],
    "German Language": ["German"],
}

OTHER_LANGUAGES = {
    "United States of America": {
        "de": "Vereinigte Staaten",
        "es": "Estados Unidos",
        "ja": "アメリカ合衆国",
    },
    "Germany": {"de": "Deutschland", "fr": "Allemagne", "es": "Alemania", "ru": "Германия"},
    "France": {"de": "Frankreich", "es": "Francia", "ru": "Франция"},
    "Spain": {"es": "España", "de": "Spanien"},
    "Japan": {"ja": "日本", "fr": "Japon"},
    "China": {"zh": "中国", "fr": "Chine"},
    "Russia": {"ru": "Россия", "de": "Russland"},
    "Egypt": {"ar": "مصر", "de": "Ägypten"},
    "Greece": {"el": "Ελλάδα", "de": "Griechenland"},
    "Vienna": {"de": "Wien", "fr": "Vienne"},
    "Rome": {"it": "Roma", "de": "Rom"},
    "London@m.04jpl": {"fr": "Londres", "it": "Londra"},
    "Beijing": {"zh": "北京市", "de": "Peking"},
    "Pyotr Ilyich Tchaikovsky": {"ru": "Пётр Ильич Чайковский"},
    "Barack Obama": {"ru": "Барак Обама", "ja": "バラク・オバマ", "en-GB": "Barack Obama"},
    "Mississippi River": {"de": "Mississippi", "fr": "Mississippi"},
    "Martin Luther King, Jr.": {"fr": "Martin Luther King"},
    "The Lord of the Rings: The Return of the King": {
        "de": "Der Herr der Ringe: Die Rückkehr des Königs"
    },
    "World War II": {"de": "Zweiter Weltkrieg", "fr": "Seconde Guerre mondiale"},
}

# Written for the sample, in the dump's form: text that no path holds.
DESCRIPTIONS = {
    "Barack Obama": 'The 44th President of the United States; "Yes We Can" was his slogan.',
    "Jamaica": "An island country in the Caribbean Sea.\\nIts capital is Kingston.",
    "Skyfall": "The third film with Daniel Craig as James Bond.",
    "Google": "A company in Mountain View, California, known for its search engine.",
}
WIKIPEDIA = {
    "Barack Obama": "Barack_Obama",
    "Angelina Jolie": "Angelina_Jolie",
    "Jamaica": "Jamaica",
    "Skyfall": "Skyfall",
    "Google": "Google",
    "Pink Floyd": "Pink_Floyd",
    "J. R. R. Tolkien": "J$002E_R$002E_R$002E_Tolkien",
    "FC Barcelona": "FC_Barcelona",
}

_NS = "<http://rdf.freebase.com/ns/"
MALFORMED = [
    f"{_NS}m.02mjmr>\t{_NS}people.person.place_of_birth>\t{_NS}m.02hrh0_>",  # no dot
    f"{_NS}m.02mjmr> {_NS}people.person.gender> {_NS}m.05zppz> .",  # spaces for tabs
    f"{_NS}m.03_r3>\t{_NS}location.country.capital>\t.",  # no object
    f'{_NS}m.0f4vbz>\t{_NS}type.object.name>\t"Angelina Jolie@en\t.',  # an open quote
    f"{_NS}m.045c7b>\t{_NS}organization.organization.founders>\t{_NS}m.0gjpq",  # cut short
    "m.0dr_4\tfilm.film.directed_by\tm.03_gd\t.",  # no brackets
    "",  # an empty line
    "# a comment that some tools write",
    f"{_NS}m.07c0j>\t{_NS}music.artist.genre>\t{_NS}m.06by7>\t.\textra",  # a field too many
    f'<rdf.freebase.com/ns/m.0dr_4>\t{_NS}type.object.name>\t"Titanic"@en\t.',  # no scheme
    f'{_NS}m.0d05w3>\t{_NS}type.object.name>\t"China"@\t.',  # no language
]
