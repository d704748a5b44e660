"""How TLS is to be used: given as a context, or as files from which one is made when it is needed."""

import socket
import ssl
from dataclasses import dataclass

from tidelog.base.errors import ClientError, Disconnected, Timeout, Untrusted
from tidelog.client.transport import left


@dataclass(frozen=True, slots=True)
class Encryption:
    """`first`: before the server's greeting. All empty: only when the server or the URL asks for it."""

    context: ssl.SSLContext | None = None
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    first: bool = False

    @property
    def is_asked_for(self) -> bool:
        return self.context is not None or bool(self.ca_file or self.cert_file) or self.first

    def wrap(self, sock: socket.socket, host: str, deadline: float) -> ssl.SSLSocket:
        """TLS on top of `sock`, which is closed when it fails."""
        sock.settimeout(left(deadline))
        try:
            return self._make_context().wrap_socket(sock, server_hostname=host)
        except ClientError:
            sock.close()
            raise
        except TimeoutError:
            sock.close()
            raise Timeout(f"{host}: no TLS handshake in time") from None
        except ssl.SSLCertVerificationError as error:
            sock.close()
            raise Untrusted(f"{host}: its certificate is not trusted: {error.verify_message}") from error
        except OSError as error:
            sock.close()
            raise Disconnected(f"{host}: TLS handshake failed: {_reason(error)}") from error

    def _make_context(self) -> ssl.SSLContext:
        if self.context is not None:
            return self.context
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:
            files = ", ".join(filter(None, (self.ca_file, self.cert_file, self.key_file)))
            raise ClientError(f"cannot use TLS files {files}: {_reason(error)}") from error
        return context


def _reason(error: OSError) -> str:
    return str((error.reason if isinstance(error, ssl.SSLError) else error.strerror) or error)
