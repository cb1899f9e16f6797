"""The URL of a world server is an address, never a secret."""

from pathlib import Path

import pytest

from rehearsal_room.envpool.client.pool import RemotePool
from rehearsal_room.envpool.client.url import url_fault
from rehearsal_room.envpool.core.errors import PoolError
from tests.support.cli import Rehearse

SECRETS = [
    "http://ada:hunter2@host:8765",
    "http://hunter2@host",
    "https://ada:hunter2@[::1]:1",
    "ada:hunter2@host",
    "http://host:8765/hunter2@x",
    "http://ada:hun/ter2@host",
    "http://host:8765?token=hunter2",
    "http://host:8765/worlds?hunter2",
    "http://host:8765#hunter2",
    "ftp://hunter2",
    "http://host:hunter2",
    "http://\x1b[2Jhunter2",
]


@pytest.mark.parametrize(
    "url",
    ["http://host", "https://worlds.example:8765/", "http://[::1]:8765", "http://host/prefix"],
)
def test_an_address_is_accepted(url: str) -> None:
    """Scheme, host, port and the path of a proxy are an address."""
    assert url_fault(url) == ""
    assert RemotePool(url).url == url.rstrip("/")


@pytest.mark.parametrize("url", SECRETS)
def test_a_url_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    """Neither the sentence nor the error contains a part of the secret."""
    fault = url_fault(url)
    assert fault
    assert "unter2" not in fault
    with pytest.raises(PoolError) as caught:
        RemotePool(url)
    assert "unter2" not in str(caught.value)


@pytest.mark.parametrize("flag", ["--pool", "--mcp"])
def test_a_run_refuses_a_password_and_writes_it_nowhere(
    rehearse: Rehearse, tmp_path: Path, flag: str
) -> None:
    """Exit status 2 and a sentence that names the environment variable; the folder of the run does
    not exist, and the same from a TOML file."""
    folder = tmp_path / "run"
    config = tmp_path / "run-settings.toml"
    config.write_text(f'{flag.strip("-")} = "{SECRETS[0]}"\n')
    for given in ([flag, SECRETS[0]], ["--config", config]):
        status, out, err = rehearse("run", "shop_support", *given, "-p", "oracle", "-o", folder)
        assert (status, out) == (2, "")
        assert "REHEARSE_TOKEN" in err
        assert "hunter2" not in err
        assert not folder.exists()
