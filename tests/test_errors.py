"""No message holds a secret, however a URL with one is written or broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.errors import without_secrets

SECRET = "S3cr3t"
URLS = (
    "bolt://neo4j:S3cr3t@host:7687",
    "bolt://neo4j:a/S3cr3t@host",
    "bolt://neo4j:12/S3cr3t@host",
    "bolt://neo4j:a?S3cr3t@host:7687",
    "bolt://neo4j:a#S3cr3t@host",
    "neo4j+s://u:S3cr3t@[::1]:7687",
    "bolt://u:S3cr3t[@h",
    "postgresql://u:S3cr3t/shop",
    "postgresql://u:S3cr3t",
    "postgresql://u:S3cr3t@",
    "postgresql://u:p@S3cr3t@127.0.0.1",
    "postgresql://u:my S3cr3t@h/db",
    "postgresql:u:S3cr3t@h",
    "postgresql:/u:S3cr3t@h",
    "POSTGRESQL://u:S3cr3t@h",
    "postgresql://u:S3cr3t@h1:1,h2:2/db",
    "postgresql://h/db?user=u&password=S3cr3t",
    "postgresql://h/db?sslmode=off&passwd='S3cr3t'",
    "mysql+pymysql://u:S3cr3t@h/db?charset=utf8",
    "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3DS3cr3t",
    "redis://:S3cr3t@h:6379/0",
    "bolt://u:\tS3cr3t@h:7687",
    "http://u: S3cr3t@[::1]:1/v1",
    "oracle://u:\u2028S3cr3t@h",
    "https://u:S3cr3t@h/sparql",
    "https://h/sparql?api_key=S3cr3t",
    "https://h/sparql?key=S3cr3t",
    "https://h/sparql?q=x&X-Api-Key=S3cr3t",
    "https://h/sparql?client_secret=S3cr3t",
    "https://h/sparql?accessToken=S3cr3t",
    "https://h/sparql?sig=S3cr3t",
    "https://h/sparql?pass%77ord=S3cr3t",
    "https://h/sparql?authorization=Bearer%20S3cr3t",
    "DRIVER={x};UID=u;PWD={a;S3cr3t}",
    "https://u:a\nS3cr3t@h",
    "neo4j:S3cr3t@localhost:7687",
    "//u:S3cr3t@h/sparql",
    "ｈttp://u:S3cr3t@h",
    "my_db://u:S3cr3t@h",
    "bolt：//u:S3cr3t@h",
    "bolt：/u:S3cr3t@h",
    "neo4j:S3cr3t@localhost",
    "neo4j:S3cr3t@10.0.0.1",
    "u:x'S3cr3t@h:1",
    "postgresql://u:p/S3cr3t",
    "bolt://u:p?S3cr3t",
    "base_url=https://h/v1?token=S3cr3t",
    "KGQA_GRAPH=https://h/sparql?a=b&sig=S3cr3t",
    "postgresql://h/db?options=-c%20password%3DS3cr3t",
    "https://h/sparql?subscription-key=S3cr3t",
    "https://h/sparql?access_key=S3cr3t",
    "https://h/sparql?user[password]=S3cr3t",
    "https://h/sparql?token=a'S3cr3t",
    "https://h/sparql?token=a;S3cr3t",
    "https://h/sparql?token='S3cr3t",
    'https://h/sparql?token="a S3cr3t',
    "host=h password = 'a S3cr3t' user=u",
    'Pwd="a""S3cr3t";Uid=u',
    "Pwd={a}}S3cr3t};Uid=u",
    '{"password": "S3cr3t"}',
)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("form", ["{} is down.", "the URL '{}', which", "({})", "no: {}"])
def test_a_url_is_shown_without_its_secret(url: str, form: str) -> None:
    assert SECRET not in without_secrets(form.format(url))


@pytest.mark.parametrize(
    "text",
    [
        "Nothing answers at neo4j://localhost:7687.",
        "(bolt://localhost:7687)",
        "sqlite:///C:/data/kg.db is no database",
        "http://localhost:7474/browser/?dbms=x, then",
        "https://medium.com/@user/a",
        "see https://www.wikidata.org/entity/Q42, or write to a@b.example",
        "ratio 3:4 of me@x.example",
        "There is no mailto:ada@x.example, npm:react@18.2.0 or ada@x.example.",
        "https://h/a?b=c&d=e=f, x=y; z='a b', max_new_tokens=5",
        "key=name of max_tokens=5, author=Jane",
        "https://h/sparql?query=x&default-graph-uri=http://g",
        "[http://[::1]:8080/]",
    ],
)
def test_what_has_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


@given(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=20))
def test_any_password_before_the_host_goes(password: str) -> None:
    shown = without_secrets(f"The server bolt://neo4j:x{SECRET}{password}@host is down.")
    assert SECRET not in shown


def test_a_secret_after_many_settings_goes() -> None:
    text = "a=" * 9_000 + "token=S3cr3t"
    assert without_secrets(text) == text.replace(SECRET, "***")


@pytest.mark.parametrize("url", ["postgresql://shop:S3cr3t/db", "bolt://u:a/S3cr3t@host"])
def test_what_a_library_repeats_of_a_url_goes(url: str) -> None:
    said = f"invalid integer value '{SECRET}' for connection option 'port'"
    assert SECRET not in without_secrets(said, url)
