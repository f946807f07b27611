"""Prices, plots and the page docs/benchmarks.md."""
import math
import textwrap

LABELS = {
    "annals": "Annals", "bare": "bare SDK put", "powertools": "Powertools idempotency", "langchain": "LangChain DynamoDBChatMessageHistory",
    "langgraph": "langgraph-checkpoint-aws", "strands": "Strands S3SessionManager", "mastra": "Mastra DynamoDB store",
}
SHORT = {"annals": "Annals", "bare": "bare put", "powertools": "Powertools", "langchain": "LangChain", "langgraph": "LangGraph",
         "strands": "Strands", "mastra": "Mastra"}
NAMES = list(LABELS)
SETTINGS = {"MODEL": "echo", "CONTEXT_WINDOW": "8000", "REPLY_QUIET": "0"}

# Dollars, us-east-1, on demand, without free tiers, with the day and the addresses at which they were read.
PRICES_READ = "2026-11-25"
READ, WRITE = 0.125e-6, 0.625e-6
S3_PUT, S3_GET = 5e-6, 0.4e-6
SQS = 0.5e-6
LAMBDA_REQUEST, LAMBDA_GB_SECOND = 0.2e-6, 13.3334e-6
AGENT_CORE_EVENT = 0.25e-3
HOURS = 730
CONTAINER = HOURS * (0.25 * 0.04048 + 0.5 * 0.004445)
DATABASE = HOURS * 0.016 + 20 * 0.115
SOURCES = [
    ("DynamoDB: $0.625 per million write units, $0.125 per million read units", "https://airbyte.com/data-engineering-resources/dynamodb-pricing"),
    ("S3 Standard: $0.005 per 1,000 PUT and LIST, $0.0004 per 1,000 GET", "https://c3x.dev/blog/s3-request-fees-explained"),
    ("SQS FIFO: $0.50 per million requests", "https://cloudburn.io/blog/amazon-sqs-pricing"),
    ("Lambda on arm64: $0.0000133334 per GB-second; $0.20 per million requests", "https://cloudchipr.com/blog/aws-lambda-pricing, https://aws.amazon.com/lambda/pricing/"),
    ("Bedrock AgentCore Memory: $0.25 per 1,000 new events", "https://aws.amazon.com/bedrock/agentcore/pricing/"),
    ("Fargate on x86: $0.04048 per vCPU-hour, $0.004445 per GB-hour", "https://www.vantage.sh/blog/fargate-pricing"),
    ("RDS for PostgreSQL: `db.t4g.micro` $0.016 per hour", "https://infratally.com/articles/aws-rds-pricing-explained-2026.html"),
    ("HTTP API of API Gateway: $1.00 per million requests", "https://www.apigatewaycost.com/aws"),
    ("RDS storage: $0.115 per GB-month of gp3", "https://www.usage.ai/blogs/aws/reserved-instances/rds/pricing-calculator/"),
]


def dollars(count):
    """Returns the price of counted requests. A message sent to the queue is received and deleted, too."""
    price = {"reads": READ, "writes": WRITE, "s3_put": S3_PUT, "s3_get": S3_GET, "sqs": 3 * SQS}
    return sum(count.get(name, 0) * each for name, each in price.items())


def number(value):
    return f"{value:,.1f}".removesuffix(".0")


def cell(count):
    if count is None:
        return "–"
    if "error" in count:
        return "refused"
    units = [(count.get("writes"), "W"), (count.get("reads"), "R"), (count.get("s3_put"), "PUT"), (count.get("s3_get"), "GET")]
    units = " ".join(f"{number(value)} {unit}" for value, unit in units if value) or "0"
    return f"{units} · {count['requests']:,} · {number(count['bytes'] / 1000)}"


def cost_table(figures, step):
    sizes = figures["sizes"]
    rows = ["| | " + " | ".join(f"{size:,}" for size in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for name, row in figures["cost"].items():
        if name == "powertools" and step == "load":
            continue
        measured = [row.get(str(size), {}) for size in sizes]
        cells = [cell(one if "error" in one else one.get(step)) for one in measured]
        rows.append(f"| {LABELS[name]} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def refusals(figures):
    said = []
    for name, row in figures["cost"].items():
        for size in figures["sizes"]:
            one = row.get(str(size), {})
            parts = [one, *(one.get(step, {}) for step in ("append", "duplicate", "load"))]
            if error := next((part["error"] for part in parts if "error" in part), None):
                said.append(f"{LABELS[name]} with {size:,} messages: `{error[:220].strip()}`")
            there = one.get("load", {}).get("count", size)
            if there < size and name != "powertools":
                said.append(f"{LABELS[name]} with {size:,} messages: its load returns {there:,} of them, without an error")
    return said


def race_table(figures):
    rows = ["| | 20 appends at once: there afterwards | lost without an error | the same message again |", "|---|---|---|---|"]
    for name, race in figures["race"].items():
        again = "stored twice" if race["copies"] > 1 else "once, and nothing is written" if not race["written"] else "once, written again"
        lost = 20 - race["there"] - race["failed"]
        rows.append(f"| {LABELS[name]} | {race['there']} | {lost} | {again} |")
    return "\n".join(rows)


def exchange(row):
    """Returns the dollars of a message and its answer: append, load, append; of Annals, the mean of 100 that were measured."""
    if "exchanges" in row:
        return dollars(row["exchanges"]) / 100
    return 2 * dollars(row["append"]) + dollars(row["load"])


def million_table(figures):
    sizes = figures["sizes"]
    rows = ["| dollars per million messages, in chats of | " + " | ".join(f"{size:,}" for size in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for name, row in figures["cost"].items():
        if name == "powertools":
            continue
        cells = []
        for size in sizes:
            one = row.get(str(size), {})
            bad = not one or "error" in one or any("error" in one.get(step, {}) for step in ("append", "load"))
            cells.append("–" if bad else f"{exchange(one) * 5e5:,.2f}")
        rows.append(f"| {LABELS[name]} | " + " | ".join(cells) + " |")
    flat = f"{AGENT_CORE_EVENT * 1e6:,.2f}"
    rows.append(f"| Bedrock AgentCore Memory, one event a message | " + " | ".join([flat] * len(sizes)) + " |")
    rows.append(f"| a container and a database, all month, with any number | " + " | ".join([f"{CONTAINER + DATABASE:,.2f}"] * len(sizes)) + " |")
    return "\n".join(rows)


def growth_table(figures):
    rows = ["| chats in the table | append | duplicate | context load | turn |", "|---|---|---|---|---|"]
    for row in figures["growth"]:
        rows.append(f"| {row['chats']:,} | " + " | ".join(cell(row[step]) for step in ("append", "duplicate", "load", "turn")) + " |")
    return "\n".join(rows)


# --- Plots: one file for light and dark, without scripts ---

COLOURS = {"annals": ("#2a78d6", "#3987e5"), "bare": ("#5f5e58", "#a3a29a"), "powertools": ("#1baf7a", "#199e70"), "langchain": ("#eb6834", "#d95926"),
           "langgraph": ("#4a3aa7", "#9085e9"), "strands": ("#e34948", "#e66767"), "mastra": ("#008300", "#2f9e2f")}
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #52514e }
.title { font-size: 15px; font-weight: 600; fill: #0b0b0b }
.ground { fill: #fcfcfb } .grid { stroke: #e4e3df } .axis { stroke: #8a8983 }
LIGHT
@media (prefers-color-scheme: dark) {
text { fill: #c3c2b7 } .title { fill: #ffffff } .ground { fill: #1a1a19 } .grid { stroke: #33322f } .axis { stroke: #7d7c76 }
DARK
}
</style>"""


def style(names):
    rule = lambda which: "\n".join(f".{name} {{ --c: {COLOURS[name][which]} }}" for name in names)
    shared = "\n.line { fill: none; stroke: var(--c); stroke-width: 2 } .dot { fill: var(--c) } .label { fill: var(--c); font-weight: 600 }"
    return STYLE.replace("LIGHT", rule(0) + shared).replace("DARK", rule(1) + "\n.label { fill: var(--c) }")


def plot(title, subtitle, lines):
    """Returns an SVG of `lines` (name to points of messages and dollars), on logarithmic axes."""
    width, height, left, right, top, bottom = 760, 420, 70, 110, 64, 48
    xs = sorted({x for points in lines.values() for x, _ in points})
    ys = [y for points in lines.values() for _, y in points]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    at_x = lambda x: left + (math.log10(x / xs[0])) / max(math.log10(xs[-1] / xs[0]), 1e-9) * (width - left - right)
    at_y = lambda y: height - bottom - (math.log10(y) - low) / max(high - low, 1) * (height - top - bottom)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">', style(lines),
           f'<rect class="ground" width="{width}" height="{height}"/>', f'<text class="title" x="16" y="26">{title}</text>',
           f'<text x="16" y="45">{subtitle}</text>']
    for power in range(low, high + 1):
        y = at_y(10 ** power)
        out.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">${10 ** power:,.{max(0, -power)}f}</text>')
    for x in xs:
        out.append(f'<text x="{at_x(x):.1f}" y="{height - bottom + 20}" text-anchor="middle">{x:,}</text>')
    out.append(f'<line class="axis" x1="{left}" x2="{width - right}" y1="{height - bottom}" y2="{height - bottom}"/>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 8}" text-anchor="middle">messages in the chat</text>')
    labels = []
    for name, points in lines.items():
        path = " ".join(f"{'M' if index == 0 else 'L'}{at_x(x):.1f} {at_y(y):.1f}" for index, (x, y) in enumerate(points))
        out.append(f'<g class="{name}"><path class="line" d="{path}"/>')
        out += [f'<circle class="dot" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4"/>' for x, y in points]
        out.append("</g>")
        labels.append([at_y(points[-1][1]) + 4, at_x(points[-1][0]) + 9, name])
        if points[-1][0] < xs[-1]:
            labels[-1][:2] = labels[-1][0] - 28, labels[-1][1] - 40  # above the end, off the lines that go on
    labels.sort()
    for before, label in zip(labels, labels[1:]):
        # Labels of lines that end close to each other are moved apart.
        label[0] = max(label[0], before[0] + 15) if label[1] == before[1] else label[0]
    out += [f'<text class="{name} label" x="{x:.1f}" y="{y:.1f}">{SHORT[name]}</text>' for y, x, name in labels]
    return "\n".join([*out, "</svg>", ""])


def lines_of(figures, step):
    lines = {}
    for name, row in figures["cost"].items():
        if name == "powertools" and step == "load":
            continue
        points = []
        for size in figures["sizes"]:
            count = row.get(str(size), {}).get(step)
            if count and "error" not in count and dollars(count):
                points.append((size, dollars(count) * 1e6))
        if points:
            lines[name] = points
    return lines


def write(figures, out, cold):
    for part in ("cost", "race"):
        figures[part] = {name: figures[part][name] for name in NAMES if name in figures[part]}
    for step, title in (("append", "An append"), ("load", "A context load")):
        svg = plot(f"{title}: dollars per million", "measured units at on-demand prices of us-east-1, both axes logarithmic", lines_of(figures, step))
        (out / f"images/benchmark-{step}.svg").write_text(svg, encoding="utf-8")
    refused = "".join(f"\n- {line}" for line in refusals(figures))
    prices = textwrap.fill("; ".join(what for what, _ in SOURCES) + ".", 140, break_on_hyphens=False)
    (out / "benchmarks.md").write_text(PAGE.format(
        append=cost_table(figures, "append"), duplicate=cost_table(figures, "duplicate"), load=cost_table(figures, "load"), race=race_table(figures),
        million=million_table(figures), growth=growth_table(figures), refused=refused or "\n- none", prices=prices, prices_read=PRICES_READ, date=figures["date"],
        checks=figures["checks"], text=f"{figures['text_bytes']:.0f}", container=f"{CONTAINER:.2f}", database=f"{DATABASE:.2f}") + cold, encoding="utf-8")


PAGE = """# What storing a message costs, beside what people use instead

For people who choose a store for chats. Written by `just bench`; do not edit. Other measurements: [bench/README.md](../bench/README.md).

All clients call one emulator through one proxy, which counts requests, bytes of bodies in both directions, and the units that DynamoDB
reports. The emulator is the engine of the local program. First, {checks} operations on items of known size are compared with DynamoDB's
published rules; the run ends if one differs. A refused condition is counted as the write that it costs. Messages are Chinese and English in
turn, {text} bytes of UTF-8 on average. Measured on {date}; versions are in `bench/compare/requirements.txt` and `package.json`.

A cell is *units · requests · KB*: W and R are write and read units of DynamoDB, PUT (or LIST) and GET are requests to S3.

## Append

![Dollars per million appends](images/benchmark-append.svg)

{append}

## Duplicate: the same message again

{duplicate}

## Context load

![Dollars per million context loads](images/benchmark-load.svg)

{load}

Refused or incomplete:{refused}

How to read them:

- Annals is measured as deployed: the processes of `functions/http` and `functions/agent`, in a chat that is in use. One of the two write
  units of its append is for the caller's id, the third request queues the turn. Telegram, Lark and Discord have ids in the key: one unit.
- Annals reads consistently, at twice the price, and a context, not a history: at most `CONTEXT_WINDOW`, here 8,000 tokens. In a
  short chat that is dearer than an eventually consistent read of all. The others load all, which is their default.
- LangChain and LangGraph write the whole chat with each message, so theirs are filled by one write, and then measured. LangGraph puts
  what is over 350 KB into S3: few dollars, and the whole chat travels with each message (see KB).
- Strands' append is measured in a process that has loaded the chat. Another process loads it first, at the price of a context load.
- The bare put and Mastra put without a condition. Powertools guards the bare put; it loads nothing.

## Concurrency and redelivery

{race}

20 clients, each in a thread or process of its own that has loaded the chat, append one message each at the same moment. Then one message is
appended twice. A message that is gone without an error is lost: its sender was told that it is stored.

## Cost of a million messages

{million}

Half of the messages are questions: each is appended, the context is loaded, and the answer is appended. Stores and queue only; functions,
containers of the other libraries and the model come on top. Annals' line is the mean of 100 messages and their answers, one after the
other: it includes its queue, its lease, its delivery notes, and the compactions that fell due. The container
(0.25 vCPU, 0.5 GB: ${container}) and the database (20 GB: ${database}) cost that a month with no message at all, and in one zone.

Prices of us-east-1 on demand, without free tiers and volume discounts, read on {prices_read} in stored copies of the pages that
[page.py](../bench/compare/page.py) names; check them before you rely on them:
{prices}

## Growth

Units of one chat of 100 messages, with so many chats in the table:

{growth}
"""
