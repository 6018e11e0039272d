"""Serves as the yardstick of bench/throughput.py: an asyncio TLS server that sends each line and its blob back, and
nothing more.

python bench/echo.py --certificate FILE --key FILE      prints the port
"""

from __future__ import annotations

import argparse
import asyncio
import ssl


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            blob = await reader.readexactly(int(line.rsplit(b" ", 1)[1]) + 1)
            writer.write(line + blob)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def serve(certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--certificate", required=True)
    parser.add_argument("--key", required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.certificate, options.key))


if __name__ == "__main__":
    main()
