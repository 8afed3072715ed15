"""Targets that nobody should be made to call, as their URLs show: rows of the abuse list, each by
its number. The API refuses them, and nothing is stored."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import CRON, NOW, Read, create, pointers, refused
from reaching import target

from engine.clock import ManualClock
from engine.model import HttpTarget
from engine.registration import register
from engine.store import Store
from engine.store.jobs import create_jobs, get_job

clock = calling.clock
client = calling.client
keyspace = calling.keyspace

PUBLIC, PORT, SCHEME = "target_not_public", "port_not_allowed", "scheme_not_allowed"
USER, BAD = "userinfo_not_allowed", "bad_input"


AT_THE_DOOR = [
    ("row_01_metadata", "http://169.254.169.254/latest/meta-data/", PUBLIC),
    ("row_02_metadata_v6", "http://[fd00:ec2::254]/", PUBLIC),
    ("row_03_alibaba", "http://100.100.100.200/", PUBLIC),
    ("row_03_oracle", "http://192.0.0.192/", PUBLIC),
    ("row_03_azure", "http://168.63.129.16/", PUBLIC),
    ("row_04_google", "http://metadata.google.internal/", PUBLIC),
    ("row_04_google_with_a_dot", "http://Metadata.Google.Internal./", PUBLIC),
    ("row_05_loopback", "http://127.0.0.1:6379/", PUBLIC),
    ("row_05_localhost", "http://localhost:6379/", PUBLIC),
    ("row_05_localhost_with_a_dot", "http://LOCALHOST./", PUBLIC),
    ("row_05_below_localhost", "http://a.localhost/", PUBLIC),
    ("row_06_decimal", "http://2130706433/", PUBLIC),
    ("row_06_hexadecimal", "http://0x7f000001/", PUBLIC),
    ("row_06_octal", "http://017700000001/", PUBLIC),
    ("row_06_octal_of_four", "http://0177.0.0.1/", PUBLIC),
    ("row_07_short", "http://127.1/", PUBLIC),
    ("row_07_short_hexadecimal", "http://0x7f.1/", PUBLIC),
    ("row_07_zero", "http://0/", PUBLIC),
    ("row_07_number", "http://999/", PUBLIC),
    ("row_07_ends_in_a_number", "http://example.1/", PUBLIC),
    ("row_07_trailing_dot", "http://127.0.0.1./", PUBLIC),
    ("row_08_circled_digits", "http://①②⑦.⓪.⓪.①/", PUBLIC),
    ("row_08_ideographic_dots", "http://127。0。0。1/", PUBLIC),
    ("row_08_ideographic_dot_and_short", "http://127。1/", PUBLIC),
    ("row_08_half_width_dot_and_hexadecimal", "http://0x7f｡1/", PUBLIC),
    ("row_08_full_width_digits", "http://１２７.0.0.1/", PUBLIC),
    ("row_08_full_width_localhost", "http://ｌｏｃａｌｈｏｓｔ/", PUBLIC),
    ("row_09_loopback", "http://[::1]/", PUBLIC),
    ("row_09_unspecified", "http://[::]/", PUBLIC),
    ("row_09_mapped", "http://[::ffff:127.0.0.1]/", PUBLIC),
    ("row_09_mapped_hexadecimal", "http://[::ffff:a9fe:a9fe]/", PUBLIC),
    ("row_10_compatible", "http://[::127.0.0.1]/", PUBLIC),
    ("row_11_nat64", "http://[64:ff9b::a9fe:a9fe]/", PUBLIC),
    ("row_11_nat64_local", "http://[64:ff9b:1::a9fe:a9fe]/", PUBLIC),
    ("row_12_6to4", "http://[2002:a9fe:a9fe::1]/", PUBLIC),
    ("row_12_teredo", "http://[2001:0:a9fe:a9fe::1]/", PUBLIC),
    ("row_13_link_local_with_a_zone", "http://[fe80::1%25eth0]/", PUBLIC),
    ("row_13_public_with_a_zone", "http://[2606:4700::1111%25eth0]/", PUBLIC),
    ("row_13_site_local", "http://[fec0::1]/", PUBLIC),
    ("row_13_multicast", "http://[ff02::1]/", PUBLIC),
    ("row_14_multicast", "http://224.0.0.1/", PUBLIC),
    ("row_14_broadcast", "http://255.255.255.255/", PUBLIC),
    ("row_14_benchmarking", "http://198.18.0.1/", PUBLIC),
    ("row_15_nul", "http://127.0.0.1\0.example.com/", BAD),
    ("row_16_backslash", "http://evil.com\\@127.0.0.1/", USER),
    ("row_16_user", "http://evil.com@127.0.0.1/", USER),
    ("row_16_password", "http://a.com:80@127.0.0.1:6379/", USER),
    ("row_16_backslash_alone", "http://example.com\\.evil.example/", BAD),
    ("row_17_fragment", "http://127.0.0.1#@evil.com/", PUBLIC),
    ("row_17_fragment_of_a_good_host", "http://example.com#@evil.com/", BAD),
    ("row_18_tab", "http://ex\tample.com/", BAD),
    ("row_18_line_feed", "http://exa\nmple.com/", BAD),
    ("row_18_space_before", " http://example.com/", BAD),
    ("row_19_three_slashes", "http:///127.0.0.1/", BAD),
    ("row_19_no_slashes", "http:127.0.0.1", BAD),
    ("row_19_no_scheme", "//127.0.0.1/", SCHEME),
    ("row_19_no_host", "http://", BAD),
    ("row_19_port_alone", "http://:80/", BAD),
    ("row_19_escaped_host", "http://%31%32%37.0.0.1.example/", BAD),
    ("row_19_empty_label", "http://a..example/", BAD),
    ("row_19_long_label", f"http://{'a' * 64}.example/", BAD),
    ("row_19_long_name", f"http://{'a.' * 130}example/", BAD),
    ("row_19_brackets_around_a_name", "http://[v1.example]/", PUBLIC),
    ("row_20_file", "file:///etc/passwd", SCHEME),
    ("row_20_gopher", "gopher://127.0.0.1:6379/_x", SCHEME),
    ("row_20_dict", "dict://example.com/", SCHEME),
    ("row_20_ftp", "ftp://example.com/", SCHEME),
    ("row_20_javascript", "javascript:alert(1)", SCHEME),
    ("row_21_zero", "http://example.com:0/", PORT),
    ("row_21_ssh", "http://example.com:22/", PORT),
    ("row_21_mail", "http://example.com:25/", PORT),
    ("row_21_redis", "http://example.com:6379/", PORT),
    ("row_21_docker", "http://example.com:2375/", PORT),
    ("row_21_too_large", "http://example.com:99999/", PORT),
    ("row_21_arabic_digits", "http://example.com:٨٠/", PORT),
    ("row_21_empty", "http://example.com:/", PORT),
    ("row_27_circled_letter", "http://ⓔxample.com/", BAD),
    ("row_27_no_a_label", "http://xn--a/", BAD),
    ("row_27_emoji", "http://☃.example/", BAD),
    ("row_30_long", "http://example.com/" + "x" * 9_981, BAD),
    ("row_32_unix_scheme", "http+unix://%2Fvar%2Frun%2Fdocker.sock/", SCHEME),
    ("row_32_unix_host", "http://unix:/var/run/docker.sock:/", PORT),
]


@pytest.mark.parametrize(
    ("url", "code"), [row[1:] for row in AT_THE_DOOR], ids=[row[0] for row in AT_THE_DOOR]
)
async def test_a_url_that_must_not_be_called_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient, keyspace: Read, url: str, code: str
) -> None:
    before = await keyspace()
    problem = refused(await client.post("/v1/jobs", json={**CRON, **target(url)}), 400, code)
    assert pointers(problem) == ["/target/url"]
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://example.com", None),
        ("HTTP://Example.COM:8443/Path?q=%00#"[:-1], None),
        ("http://8.8.8.8:1024/", None),
        ("https://[2606:4700::1111]:9200/", None),
        ("http://my_service.example./", None),
        ("http://bücher.example:8080/ü?ü", "http://xn--bcher-kva.example:8080/ü?ü"),
        ("https://STRAßE.example", "https://xn--strae-oqa.example"),
        ("https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/"),
        ("http://xn--bcher-kva.example/", None),
    ],
    ids=lambda value: None if value is None else ascii(value),
)
async def test_row_27_a_good_url_is_kept_as_it_is_but_for_a_host_that_is_not_ascii(
    client: httpx.AsyncClient, url: str, stored: str | None
) -> None:
    shown = await create(client, {**CRON, **target(url)})
    assert shown["target"]["url"] == (stored or url)
    assert (await client.get("/v1/jobs/report")).json()["target"]["url"] == (stored or url)


async def test_an_allowed_network_or_host_may_be_a_target(store: Store, clock: ManualClock) -> None:
    config = store.config.model_copy(
        update={"allow_networks": "127.0.0.0/8", "allow_hosts": "*.localhost:81,[fd00::1]"}
    )
    async with calling.calling(config, store, clock) as client:
        for n, url in enumerate(
            (
                "http://127.0.0.1/",
                "http://localhost:9000/",
                "http://a.localhost:81/",
                "http://[fd00::1]/",
            )
        ):
            await create(client, {**CRON, **target(url), "job_id": f"a-{n}"})
        for url, code in (
            ("http://127.1/", PUBLIC),
            ("http://127.0.0.1:81/", PORT),
            ("http://[::1]/", PUBLIC),
            ("http://[fd00::2]/", PUBLIC),
        ):
            refused(await client.post("/v1/jobs", json={**CRON, **target(url)}), 400, code)


async def test_a_job_that_is_stored_already_can_be_changed_but_not_to_another_bad_target(
    client: httpx.AsyncClient, store: Store
) -> None:
    old = HttpTarget("http://127.0.0.1:6379/old", headers={"traceparent": "x"})
    await create_jobs(store, [register(now=NOW, target=old, job_id="old", payload=b"1")])
    answer = await client.patch("/v1/jobs/old", json={"payload": 2})
    assert (answer.status_code, answer.json()["payload"]) == (200, 2)
    answer = await client.patch("/v1/jobs/old", json={"target": {"headers": {"A": "b"}}})
    assert answer.json()["target"]["headers"] == {"traceparent": "x", "A": "b"}
    answer = await client.put("/v1/jobs/old", json=target(old.url))
    assert answer.status_code == 200
    worse: dict[str, Any] = {"target": {"url": "http://127.0.0.1:6379/new"}}
    refused(await client.patch("/v1/jobs/old", json=worse), 400, PUBLIC)
    worse = {"target": {"headers": {"tracestate": "x"}}}
    refused(await client.patch("/v1/jobs/old", json=worse), 400, BAD)
    stored = (await get_job(store, "old")).job.target
    assert stored == HttpTarget(old.url)
