"""An SMTP server of aiosmtpd that prints each message, decoded, as a line of JSON. Its settings are JSON in argv[1]."""

import asyncio
import email
import email.policy
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

settings = json.loads(sys.argv[1])


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        answer = settings.get("rejected", {}).get(address)
        if answer is not None:
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": session.ssl is not None or settings["tls"] == "implicit",
            "user": session.auth_data,
            "headers": [f"{name}: {value}" for name, value in message.items()],
            "body": message.get_content().replace("\r\n", "\n"),
        }
        print(json.dumps(mail), flush=True)
        return "250 accepted"


def authenticate(server, session, envelope, mechanism, data):
    login, password = data.login.decode(), data.password.decode()
    success = [login, password] == settings.get("login")
    return AuthResult(success=success, handled=False, auth_data=login)


async def main():
    context = None
    if settings["tls"] != "none":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings["certificate"], settings["key"])
    is_starttls = settings["tls"] == "starttls"

    def server():
        return SMTP(
            Handler(),
            hostname="mail.test",
            tls_context=context if is_starttls else None,
            require_starttls=is_starttls,
            auth_require_tls=is_starttls,
            auth_required="login" in settings,
            authenticator=authenticate,
        )

    listener = await asyncio.get_running_loop().create_server(
        server, "127.0.0.1", 0, ssl=context if settings["tls"] == "implicit" else None
    )
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


asyncio.run(main())
