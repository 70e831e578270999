"""Exit with 0 if the node of this container serves, as its /readyz says; else print why not.

For HEALTHCHECK: there is no curl in the image. The certificate is verified, so one that has ended
shows here.
"""

import os
import ssl
import sys
from http.client import HTTPException, HTTPSConnection


def main() -> str | None:
    """What is wrong."""
    port = int(os.environ.get("HORNBEAM_PORT", "8780"))
    try:
        context = ssl.create_default_context(cafile=os.environ["HORNBEAM_NODE_CA"])
        node = HTTPSConnection("localhost", port, timeout=4, context=context)
        node.request("GET", "/readyz")
        answer = node.getresponse()
        return None if answer.status == 200 else answer.read().decode()
    except (OSError, HTTPException) as error:
        return f"no answer: {error!r}"


if __name__ == "__main__":
    sys.exit(main())
