"""A server of fastmcp, for servers.test.mjs: `python server.py <port>`."""

import asyncio
import sys

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image

READS = {"readOnlyHint": True}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d4944415478da63fcffff3f030005fe02fea7a1a8e50000000049454e44ae426082"
)
mcp = FastMCP("fast")


@mcp.tool(annotations=READS)
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@mcp.tool(annotations=READS)
def fail() -> str:
    """Fails."""
    raise ToolError("the till is broken")


@mcp.tool(annotations=READS)
def picture() -> Image:
    """Draws."""
    return Image(data=PIXEL, format="png")


@mcp.tool(annotations=READS)
async def slow() -> str:
    """Takes long."""
    await asyncio.sleep(60)
    return "at last"


@mcp.tool(annotations={"destructiveHint": True})
def wipe(name: str) -> str:
    """Deletes something."""
    return f"wiped {name}"


@mcp.tool(annotations=READS)
async def unlock(context: Context) -> str:
    """Offers one tool more."""
    await context.enable_components(names={"secret"})
    return "unlocked"


@mcp.tool(annotations=READS)
def secret() -> str:
    """Is offered after `unlock` alone."""
    return "the secret"


mcp.disable(names={"secret"})
mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
