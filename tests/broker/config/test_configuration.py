"""Configuration: what overrides what, and errors that say where, what and what would be right."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.config.configuration import ConfigurationError, Origin, effective, load
from nearcast.broker.config.setting_catalog import SETTINGS, Setting, public, value_of
from nearcast.broker.config.settings import ListenSection, Settings

pytestmark = pytest.mark.usefixtures("empty_directory")


def write(directory: Path, text: str) -> Path:
    path = directory / "broker.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(
    path: Path | None = None,
    environ: dict[str, str] | None = None,
    overrides: dict[str, object] | None = None,
) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(path, environ or {}, overrides or {})
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_without_anything_given_everything_is_as_it_is_by_default() -> None:
    found = effective(None, {}, {})
    assert found.settings == Settings()
    assert found.file is None
    assert set(found.origins.values()) == {Origin("default")}
    assert set(found.origins) == set(SETTINGS)


def test_defaults_are_values_that_would_be_accepted() -> None:
    assert msgspec.convert(msgspec.to_builtins(Settings()), Settings) == Settings()


def test_a_file_overrides_defaults_and_leaves_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, '[listen]\nmqtt_port = 0\n[doors]\njwt_algorithms = ["EdDSA"]\n')
    settings = load(path, {}, {})
    assert settings.listen == ListenSection(mqtt_port=0)
    assert settings.doors.jwt_algorithms == ("EdDSA",)
    assert settings.limits == Settings().limits


def test_the_file_in_the_current_directory_is_read_unless_another_is_given(tmp_path: Path) -> None:
    Path("nearcast.toml").write_text("[listen]\nmqtt_port = 1\n")
    other = write(tmp_path, "[listen]\nws_port = 2\n")
    assert load(None, {}, {}).listen == ListenSection(mqtt_port=1)
    assert load(other, {}, {}).listen == ListenSection(ws_port=2)


def test_variables_override_the_file_and_options_override_variables(tmp_path: Path) -> None:
    path = write(tmp_path, "[listen]\nmqtt_port = 1\nws_port = 2\nhttp_port = 3\n")
    environ = {"NEARCAST_LISTEN_WS_PORT": "20", "NEARCAST_LISTEN_HTTP_PORT": "30"}
    found = effective(path, environ, {"listen.http_port": 300, "listen.mqtt_port": None})
    assert found.settings.listen == ListenSection(mqtt_port=1, ws_port=20, http_port=300)
    assert found.origins["listen.mqtt_port"] == Origin("file", f"{path}, line 2")
    assert found.origins["listen.ws_port"] == Origin("variable", "NEARCAST_LISTEN_WS_PORT")
    assert found.origins["listen.http_port"].kind == "option"
    assert found.origins["listen.host"] == Origin("default")


def test_variables_are_read_as_what_they_stand_for() -> None:
    settings = load(
        None,
        {
            "NEARCAST_BROKER_NAME": "dublin-1",
            "NEARCAST_LIMITS_QUEUED": "5",
            "NEARCAST_LOG_ROLL_S": " 2.5",
            "NEARCAST_RECORD_EXCLUDE": "traffic/#, weather/+ ,",
            "NEARCAST_DOORS_JWT_ALGORITHMS": '["ES256"]',
            "NEARCAST_DECIDE": '{"traffic/#" = "edge"}',
            "NEARCAST_RECORD_DELIVERIES": "true",
        },
        {},
    )
    assert settings.node.name == "dublin-1"
    assert settings.limits.queued == 5
    assert settings.log.roll_s == 2.5
    assert settings.record.exclude == ("traffic/#", "weather/+")
    assert settings.doors.jwt_algorithms == ("ES256",)
    assert settings.decide == {"traffic/#": "edge"}
    assert settings.record.deliveries is True


def test_an_empty_variable_empties_text_and_lists() -> None:
    environ = {"NEARCAST_DOORS_JWT_ISSUER": "", "NEARCAST_DOORS_JWT_ALGORITHMS": ""}
    doors = load(None, environ, {}).doors
    assert (doors.jwt_issuer, doors.jwt_algorithms) == ("", ())


def test_variables_of_other_programs_are_ignored() -> None:
    environ = {"NEARCAST_HOME": "x", "NEARCAST_PORT_1883_TCP": "x", "PATH": "x", "nearcast_log": ""}
    assert load(None, environ, {}) == Settings()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NEARCAST_LISTEN_MQT_PORT", "NEARCAST_LISTEN_MQTT_PORT"),
        ("NEARCAST_LOG_LEVEL", "NEARCAST_LOGGING_LEVEL"),
        ("NEARCAST_DECIDE_TRAFFIC", "NEARCAST_DECIDE"),
        ("NEARCAST_LISTEN", ""),
    ],
)
def test_an_unknown_variable_of_a_section_is_an_error_with_the_nearest_name(
    name: str, hint: str
) -> None:
    (problem,) = problems(environ={name: "1"})
    assert problem.startswith(f"{name}: there is no such setting")
    assert hint in problem


def test_options_may_be_text_numbers_lists_and_paths() -> None:
    settings = load(
        None,
        {},
        {
            "listen.ws_port": "7",
            "log.roll_s": 2,
            "record.exclude": ("a",),
            "broker.data": Path("d"),
        },
    )
    assert settings.listen.ws_port == 7
    assert settings.log.roll_s == 2.0
    assert settings.record.exclude == ("a",)
    assert settings.node.data == "d"


def test_paths_in_a_file_are_relative_to_it_and_others_to_the_current_directory(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "etc"
    directory.mkdir()
    path = write(directory, '[broker]\ndata = "data"\n[doors]\nrules = "/etc/rules"\nusers = ""\n')
    settings = load(path, {"NEARCAST_DOORS_JWT_KEY": "key.pem"}, {})
    assert settings.node.data == str(directory / "data")
    assert settings.doors.rules == "/etc/rules"
    assert settings.doors.users == ""
    assert settings.doors.jwt_key == "key.pem"


PATHS = [setting for setting in SETTINGS.values() if setting.marked("path")]


@pytest.mark.parametrize("setting", PATHS, ids=[setting.key for setting in PATHS])
def test_every_path_follows_the_same_rule(setting: Setting, tmp_path: Path) -> None:
    assert not Path(str(setting.default)).is_absolute()
    directory = tmp_path / "etc"
    directory.mkdir()
    # Two of them need each other.
    others = {"listen.certificate": "key", "listen.key": "certificate"}
    more = f"{others[setting.key]} = '/x'\n" if setting.key in others else ""
    for said, meant in (("a/b", directory / "a/b"), ("../c", directory / "../c"), ("/d", "/d")):
        path = write(directory, f"[{setting.section}]\n{setting.name} = '{said}'\n{more}")
        assert value_of(load(path, {}, {}), setting) == str(meant)
        environ = {setting.variable: said}
        assert value_of(load(path, environ, {}), setting) == said


def test_all_settings_that_name_files_are_known_as_such() -> None:
    keys = {setting.key for setting in PATHS}
    assert keys >= {"broker.data", "doors.users", "doors.rules", "doors.jwt_key"}
    words = ("file", "key", "certificate", "authority", "users", "rules", "data", "directory")
    named = {key for key in SETTINGS if key.endswith(words)}
    # It says whether clients need one.
    assert named - keys == {"listen.client_certificate"}


WRONG = {
    'limits.queued = "many"': "limits.queued is 'many', but should be a whole number of at least 1",
    "limits.queued = 0": "limits.queued is 0, but should be a whole number of at least 1",
    "limits.queued_bytes = -1": "should be a whole number of at least 1",
    "limits.queued = 1.5": "should be a whole number of at least 1",
    "limits.in_flight = true": "should be a whole number from 1 to 65535",
    "limits.in_flight = 65536": "should be a whole number from 1 to 65535",
    "limits.stalled_s = inf": "limits.stalled_s is inf, but should be a number above 0",
    "limits.stalled_s = nan": "should be a number above 0",
    "limits.messages_per_s = -0.5": "should be a number of at least 0",
    "listen.mqtt_port = 65536": "should be a whole number from -1 to 65535",
    "listen.ws_port = -2": "should be a whole number from -1 to 65535",
    'listen.host = ""': "should be an address or the name of a host",
    'listen.client_certificate = "yes"': 'should be one of "optional", "required"',
    'doors.anonymous = "Everywhere"': 'should be one of "everywhere", "loopback", "nowhere"',
    'doors.jwt_algorithms = ["none"]': "should be a list, each one of",
    'logging.level = "loud"': 'one of "debug", "error", "info", "warning"',
    'logging.form = "xml"': 'should be one of "json", "text"',
    'broker.name = "../x"': "should be up to 100 letters, digits",
    'broker.data = "a\\u0000"': "should be text",
    'shutdown.redirect = "elsewhere"': "should be HOST:PORT",
    'record.exclude = ["a#"]': "# must be the whole last level, as in traffic/#",
    'record.exclude = "a"': "should be a list, each text",
    'decide."a/#" = "moon"': """decide."a/#" is 'moon', but should be one of "edge", "spark\"""",
    'decide."a/+b" = "edge"': "+ must be a whole level",
    "listen = 3": "listen is 3, but should be a section",
    "listen.mqtt_prt = 3": "there is no listen.mqtt_prt; did you mean mqtt_port",
    "limit.queued = 3": "there is no section limit; did you mean limits?",
    "mqtt_port = 3": "did you mean listen.mqtt_port?",
    "log.level = 'info'": "there is no log.level; did you mean logging.level",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_value_is_told_with_its_line_and_what_would_be_right(
    line: str, tmp_path: Path
) -> None:
    path = write(tmp_path, f"# a comment\n\n{line}\n")
    (problem,) = problems(path)
    assert problem.startswith(f"{path}, line 3: ")
    assert WRONG[line] in problem


def test_all_problems_are_told_at_once_also_of_values_that_are_overridden(tmp_path: Path) -> None:
    path = write(tmp_path, '[listen]\nhost = """\nws_port = 1\n"""\nmqtt_port = 99999\n')
    found = problems(
        path,
        {"NEARCAST_LISTEN_MQTT_PORT": "1", "NEARCAST_LIMITS_QUEUED": ""},
        {"listen.port": 1},
    )
    assert [problem.partition(": ")[0] for problem in found] == [
        f"{path}, line 5",
        "NEARCAST_LIMITS_QUEUED",
        "option listen.port",
    ]


TABLES = """
[decide]
"a/#/b" = "spark"
"good" = "edge"
"c" = "sparc"
d = 5

[aggregates]
"s/#" = "people 1"
"t/#" = "people ten"
"u/#" = "volume 5 per galaxy"
"v/#" = "time 300 within 100"
"w/#/x" = "volume 5"
"" = "volume 5"
y = 3

[spark]
"spark.executor.memory" = 8
"""


def test_every_mistake_in_a_table_is_told_with_its_own_line(tmp_path: Path) -> None:
    path = write(tmp_path, TABLES)
    places = {
        3: "a/#/b", 5: "c", 6: "d", 10: "t/#", 11: "u/#", 12: "v/#", 13: "w/#/x", 14: "", 15: "y",
        18: "spark.executor.memory",
    }  # fmt: skip
    for (line, name), problem in zip(places.items(), problems(path), strict=True):
        section = "decide" if line < 8 else "aggregates" if line < 17 else "spark"
        assert problem.startswith(f'{path}, line {line}: {section}."{name}"')
    told = problems(environ={"NEARCAST_DECIDE": '{"a/#/b" = "edge", "c" = "x", "d" = "edge"}'})
    assert [problem.partition(":")[0] for problem in told] == ["NEARCAST_DECIDE"] * 2


def test_a_file_that_cannot_be_read_or_is_not_toml_says_why(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.toml") == [
        f"{tmp_path / 'none.toml'} cannot be read: No such file or directory"
    ]
    path = write(tmp_path, "[listen]\nmqtt_port = = 1\n")
    assert problems(path) == [f"{path}, line 2, column 13: not TOML: Invalid value"]
    path.write_bytes(b"\xff\xfe")
    assert problems(path) == [f"{path}: not UTF-8 at byte 0"]


def test_a_mark_of_the_encoding_at_the_start_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_bytes(b"\xef\xbb\xbf[listen]\nmqtt_port = 5\n")
    assert load(path, {}, {}).listen.mqtt_port == 5


CONTRADICTIONS = {
    "mqtts_port = 8883": "listen.mqtts_port needs listen.certificate and listen.key",
    "wss_port = 0\ncertificate = 'c'\n": "listen.wss_port needs listen.certificate and listen.key",
    "certificate = 'c'": "listen.certificate needs listen.key",
    "key = 'k'": "listen.key needs listen.certificate",
    "client_certificate = 'required'": "needs listen.client_authority",
    "ws_port = 1883": "listen.ws_port is 1883, as is listen.mqtt_port",
}


@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_told(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"[listen]\n{text}\n")
    found = problems(path)
    assert found[0].startswith(f"{path}, line 2: ")
    assert CONTRADICTIONS[text] in found[0]


def test_free_ports_do_not_contradict_each_other() -> None:
    overrides = {"listen.mqtt_port": 0, "listen.ws_port": 0, "listen.http_port": 0}
    assert load(None, {}, overrides).listen == ListenSection(mqtt_port=0, ws_port=0, http_port=0)


def test_what_is_public_tells_that_keys_are_set_and_not_where() -> None:
    settings = load(None, {}, {"listen.key": "k.pem", "listen.certificate": "c.pem"})
    told = public(settings)
    assert told["listen"]["key"] == "(set)"
    assert told["doors"]["jwt_key"] == ""
    assert told["listen"]["certificate"] == "c.pem"
    assert told["decide"] == {}
    assert "k.pem" not in str(told)
    assert set(told) == {setting.section for setting in SETTINGS.values()}


@given(key=st.sampled_from(sorted(SETTINGS)), text=st.text(max_size=20))
def test_any_text_is_a_value_or_an_error_that_names_its_variable(key: str, text: str) -> None:
    variable = SETTINGS[key].variable
    found: list[str] = []
    try:
        settings = load(None, {variable: text}, {})
    except ConfigurationError as error:
        found = error.problems
        settings = Settings()
    assert all(variable in problem or "as is listen." in problem for problem in found)
    assert msgspec.convert(msgspec.to_builtins(settings), Settings) == settings


def test_a_table_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r'keep_days\."evnts".*events, rejects'):
        load(None, {"NEARCAST_KEEP_DAYS": "{evnts = 3}"}, {})
    with pytest.raises(ConfigurationError, match=r"at least 1"):
        load(None, {"NEARCAST_KEEP_DAYS": "{events = 0}"}, {})
    assert load(None, {"NEARCAST_KEEP_DAYS": "{events = 3}"}, {}).keep_days == {"events": 3}
