"""AWS Signature Version 4 for requests to Bedrock, by botocore (extra `bedrock`); the only file that knows it.

One class for both ways of sending: `httpx.Auth` for a client of httpx, `headers_for` for rendered requests.
"""

import os
import re
from collections.abc import Generator

import httpx

from loadgen.errors import UsageError
from loadgen.plan.render import RenderedRequest

_SERVICE = "bedrock"
_HOST = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
BEARER = "AWS_BEARER_TOKEN_BEDROCK"
# Of what is signed; the others may change on their way.
_SIGNED = ("host", "content-type")


def signer_for(url: str) -> "BedrockAuth | None":
    """Return what signs requests to `url`; None for another's server where the environment names no credentials.

    A gateway or a simulated server may want none. Raises UsageError as BedrockAuth does.
    """
    is_amazons = _HOST.search(url) is not None
    is_named = any(os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"))
    return BedrockAuth(url) if is_amazons or is_named else None


class BedrockAuth(httpx.Auth):
    """Signs requests for the region of `url` (its host's, else the environment's), with the environment's credentials.

    Raises UsageError without botocore or credentials.
    """

    requires_request_body = True

    def __init__(self, url: str) -> None:
        try:
            from botocore.session import Session
        except ImportError:
            raise UsageError(
                "signing for Bedrock needs botocore",
                hint=f"install loadgen[bedrock], or set {BEARER} to use a bearer token",
            ) from None
        session = Session()
        self._credentials = session.get_credentials()
        if self._credentials is None:
            raise UsageError(
                "there are no AWS credentials to sign with",
                hint=f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or {BEARER}",
            )
        found = _HOST.search(url)
        named = os.environ.get("AWS_REGION") or session.get_config_variable("region")
        self._region = found[1] if found else named or "us-east-1"
        self._url = url

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Sign a request of httpx as it is about to be sent."""
        signed = self._sign(
            request.method, str(request.url), {name: request.headers.get(name, "") for name in _SIGNED}, request.content
        )
        request.headers.update(signed)
        yield request

    def headers_for(self, request: RenderedRequest) -> dict[str, str]:
        """Return the headers that sign a rendered request, as of now: signatures age."""
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in request.head.decode("latin-1").split("\r\n"))
            if name.lower() in _SIGNED
        }
        return self._sign(request.method, self._url + request.path, headers, request.body)

    def _sign(self, method: str, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method, url, headers=headers, data=body)
        # Keys of a role are renewed by botocore when they are about to expire.
        SigV4Auth(self._credentials.get_frozen_credentials(), _SERVICE, self._region).add_auth(request)
        wanted = ("authorization", "x-amz-date", "x-amz-security-token")
        return {name.lower(): value for name, value in request.headers.items() if name.lower() in wanted}
