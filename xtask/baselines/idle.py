"""An idle daemon as the first ccmux was: asyncio, a socket for subscribers, the mcp library's server loaded, and looks at its
directory, its pane and its clients by timers: idle.py DIRECTORY"""
import asyncio, os, sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("idle")


@server.tool()
def send_to_channel(channel: str, message: str) -> str:
    return "sent"


async def look(every, folder):
    while True:
        os.listdir(folder)
        await asyncio.sleep(every)


async def main():
    folder = sys.argv[1]
    await asyncio.start_unix_server(lambda reader, writer: None, folder + "/output.sock")
    print("ready", flush=True)
    await asyncio.gather(look(2, folder), look(0.1, folder))


asyncio.run(main())
