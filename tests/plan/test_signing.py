"""Signatures for Bedrock, held against botocore's own client."""

import httpx
import pytest

pytest.importorskip("botocore", reason="signing needs the extra `bedrock`")

from botocore import auth as botocore_auth
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from loadgen.errors import UsageError
from loadgen.plan.recordings.prompts import Prompt, request_of
from loadgen.plan.render import RenderedRequest, render
from loadgen.plan.signing import BEARER, BedrockAuth, signer_for

HOST = "bedrock-runtime.eu-central-1.amazonaws.com"
KEYS = ("AKIDEXAMPLE", "not-so-secret", "session")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name, value in zip(("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"), KEYS, strict=True):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))


def rendered(model: str = "anthropic.claude-v1:0") -> RenderedRequest:
    return render(request_of(Prompt("hé"), api="bedrock-converse", model=model), place=0, authority=HOST)


def botocores(request: RenderedRequest) -> AWSRequest:
    signed = AWSRequest(
        "POST",
        f"https://{HOST}{request.path}",
        headers={"host": HOST, "content-type": "application/json"},
        data=request.body,
    )
    SigV4Auth(Credentials(*KEYS), "bedrock", "eu-central-1").add_auth(signed)
    return signed


@pytest.fixture
def at_one_moment(monkeypatch):
    """Both sides sign at the same second."""
    moment = botocore_auth.get_current_datetime()
    monkeypatch.setattr(botocore_auth, "get_current_datetime", lambda: moment)


@pytest.mark.parametrize("model", ["plain", "anthropic.claude-v1:0", "arn:aws:bedrock:eu-west-1::x/y"])
def test_a_rendered_request_is_signed_as_botocore_signs_it(at_one_moment, model):
    request = rendered(model)

    signed = BedrockAuth(f"https://{HOST}").headers_for(request)

    assert {name.lower(): botocores(request).headers[name] for name in signed} == signed
    assert {"authorization", "x-amz-date", "x-amz-security-token"} == set(signed)


def test_httpx_signs_the_same(at_one_moment):
    request = rendered()
    auth = BedrockAuth(f"https://{HOST}")
    through_httpx = httpx.Request(
        "POST", f"https://{HOST}{request.path}", content=request.body, headers={"content-type": "application/json"}
    )

    next(auth.auth_flow(through_httpx))

    assert auth.headers_for(request)["authorization"] == through_httpx.headers["authorization"]


def test_the_signature_stands_in_the_head_of_each_send():
    head = rendered().head_for("run-1", {"authorization": "AWS4 x", "x-amz-date": "now"}).decode()

    assert head.endswith("authorization: AWS4 x\r\nx-amz-date: now\r\nx-request-id: run-1\r\n\r\n")


@pytest.mark.parametrize(
    ("url", "variable", "region"),
    [
        (f"https://{HOST}", "us-west-2", "eu-central-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-west-2", "us-gov-west-1"),
        ("http://127.0.0.1:8000", "us-west-2", "us-west-2"),
        ("http://127.0.0.1:8000", None, "us-east-1"),
    ],
)
def test_the_region_is_the_hosts_else_the_environments(monkeypatch, url, variable, region):
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    if variable:
        monkeypatch.setenv("AWS_REGION", variable)

    assert f"/{region}/bedrock/aws4_request" in BedrockAuth(url).headers_for(rendered())["authorization"]


def test_without_credentials_the_run_is_refused_and_told_why(monkeypatch):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}")

    with pytest.raises(UsageError, match="AWS_ACCESS_KEY_ID"):
        BedrockAuth(f"https://{HOST}")


def test_anothers_server_gets_no_signature_unless_credentials_are_named(monkeypatch):
    assert isinstance(signer_for("http://127.0.0.1:8000"), BedrockAuth)

    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    assert signer_for("http://127.0.0.1:8000") is None


def test_the_token_is_where_botocore_looks_for_it():
    assert "AWS_BEARER_TOKEN_BEDROCK" == BEARER
