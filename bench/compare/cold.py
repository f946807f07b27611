"""Cold starts and warm answers of functions that receive a message of Telegram, for docs/benchmarks.md."""
import contextlib, http.server, json, math, os, pathlib, platform, statistics, subprocess, sys, threading, time, zipfile

import page
from world import HERE, ROOT, WORK, Function

LABELS = {"minimal": "bare Rust: one put", "telegram": "Annals: `functions/telegram`", "chat": "Chat SDK with its Telegram adapter, Node",
          "grammy": "grammY, Node", "powertools": "Powertools and boto3, Python"}
SHORT = {"minimal": "bare Rust", "telegram": "Annals", "chat": "Chat SDK", "grammy": "grammY", "powertools": "Powertools"}
COLOURS = {"minimal": "bare", "telegram": "annals", "chat": "strands", "grammy": "langgraph", "powertools": "powertools"}
KINDS = {"full": "all cores", "share": "the share of 256 MB"}
RUST = ["minimal", "telegram"]
# Lambda gives a whole processor to 1,769 MB: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
# ... and until the first event to all: https://serverlessland.com/content/service/lambda/guides/effectively-running-java-on-serverless/init-heavy-lifting
PERIOD_US, QUOTA_US = 20_000, round(20_000 * 256 / 1769)
SECRET = "dev-telegram-secret"
REQUEST = json.loads((ROOT / "infra/events/telegram-message.json").read_text())
UPDATE = json.loads((ROOT / "tests/fixtures/telegram/recorded/037_message_private_text.json").read_text())
STARTED = int(time.time()) - 3600


class Services(http.server.ThreadingHTTPServer):
    """AWS and Telegram, as far as the functions call them: `PutItem` (also the condition that the item is new), `SendMessage`,
    `GetSecretValue`, `getMe`, `sendChatAction`. The engine of the local program would take longer than the functions."""

    def __init__(self):
        self.items, self.lock = {}, threading.Lock()
        super().__init__(("127.0.0.1", 0), Call)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, operation, request):
        match operation:
            case "PutItem":
                key = request["TableName"], request["Item"]["pk"]["S"], request["Item"]["sk"]["S"]
                with self.lock:
                    if "attribute_not_exists" in request.get("ConditionExpression", "") and key in self.items:
                        return 400, {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "Item": self.items[key]}
                    self.items[key] = request["Item"]
                return 200, {}
            case "SendMessage":
                return 200, {"MessageId": "059f36b4-87a3-44ab-83d2-661975830a7d", "SequenceNumber": "18849496460467696128"}
            case "GetSecretValue":
                return 200, {"Name": request["SecretId"], "SecretString": json.dumps({"TELEGRAM_BOT_TOKEN": "123456:bench", "TELEGRAM_WEBHOOK_SECRET": SECRET})}
            case "getMe":
                return 200, {"ok": True, "result": {"id": 123456, "is_bot": True, "first_name": "Bench", "username": "bench_bot"}}
            case "sendChatAction":
                return 200, {"ok": True, "result": True}
        sys.stderr.write(f"nobody answers {operation}\n")
        return 500, {}


class Call(http.server.BaseHTTPRequestHandler):
    """A connection of a function to the services."""
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

    def handle(self):
        with contextlib.suppress(ConnectionResetError):  # by a process that was killed
            super().handle()

    def do_POST(self):
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2] or self.path.rpartition("/")[2]
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        status, answer = self.server.answer(operation, request)
        body = json.dumps(answer).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0" if "X-Amz-Target" in self.headers else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Share:
    """A cgroup with the share of a 256 MB function. `how` is `None` if this process may not create one."""

    def __init__(self):
        is_v2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        self.folder, self.how = pathlib.Path("/sys/fs/cgroup", "" if is_v2 else "cpu", f"annals-bench-{os.getpid()}"), None
        with contextlib.suppress(OSError):
            self.folder.mkdir()
            if is_v2:
                (self.folder / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
            else:
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
            self.how = "`cpu.max` of a cgroup" if is_v2 else "`cpu.cfs_quota_us` of a cgroup"

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def stop(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def build(python, node, bootstraps):
    """Builds the programs. Returns the command, the folder and the files of the package of each."""
    if bootstraps is None:
        # One after the other: a common build would link into each what the other one needs.
        for manifest in ("bench/minimal/Cargo.toml", "functions/telegram/Cargo.toml"):
            subprocess.run(["cargo", "build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", "target"], cwd=ROOT, check=True)
        bootstraps = ROOT / "target/release"
    programs, out, source = {}, WORK / "functions", HERE / "functions"
    for name in RUST:
        binary = bootstraps / name / "bootstrap" if (bootstraps / name).is_dir() else bootstraps / name
        programs[name] = [binary], None, [binary]
    runtime = pathlib.Path(subprocess.run(["node", "-p", "process.execPath"], check=True, capture_output=True, text=True).stdout.strip())
    for name in ("chat", "grammy"):
        bundle = out / f"{name}.cjs"
        # esbuild looks for the libraries in the folders above the source, and in NODE_PATH.
        subprocess.run([node / "node_modules/.bin/esbuild", source / f"{name}.mjs", "--bundle", "--minify", "--platform=node", "--format=cjs",
                        "--log-level=warning", f"--outfile={bundle}"], env={**os.environ, "NODE_PATH": str(node / "node_modules")}, check=True)
        programs[name] = [runtime, source / "runtime.mjs", bundle], None, [bundle]
    package = python.parent.parent / "powertools"  # is removed with the environment, when the pins change
    if not package.exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", package,
                        "--constraint", HERE / "requirements.txt", "aws-lambda-powertools"], check=True)
    (package / "function.py").write_text((source / "powertools.py").read_text())
    programs["powertools"] = [python, "-m", "awslambdaric", "function.handler"], package, [file for file in package.rglob("*") if file.is_file()]
    return programs


def zipped(files):
    """Returns the bytes of the files in a zip archive."""
    path = WORK / "package.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file)
    return path.stat().st_size


def event(chat, number, secret=SECRET):
    """Returns the event with message `number` of `chat`; the same for the same arguments."""
    update = json.loads(json.dumps(UPDATE))
    update["update_id"] = 1000 * chat + number
    update["message"].update(message_id=number, date=STARTED + number)
    update["message"]["chat"]["id"] = update["message"]["from"]["id"] = chat
    body = json.dumps(update, ensure_ascii=False)
    headers = {**REQUEST["headers"], "content-length": str(len(body.encode())), "x-telegram-bot-api-secret-token": secret}
    return {**REQUEST, "headers": headers, "body": body}


def launch(services, name, program, env, share, chat, warm):
    """Starts a program and sends it one message, then `warm` others. Returns the times in milliseconds, and its peak memory in MB."""
    (binary, *arguments), folder, _ = program
    services.items.clear()
    function = Function(binary, env, *arguments, folder=folder)
    try:
        if share:
            # Until a function asks for its first event, Lambda gives it a whole processor.
            function.asked.wait(timeout=120)
            share.add(function.process.pid)
        times = []
        for number in range(1, warm + 2):
            if (answer := function(event(chat, number)))["statusCode"] != 200:
                sys.exit(f"{name}: {answer}")
            times.append(1000 * (function.answered - (function.given if times else function.started)))
        status = pathlib.Path(f"/proc/{function.process.pid}/status").read_text()
        if name != "minimal":
            # A repetition is stored once, and a message with a wrong secret not at all.
            function(event(chat, number))
            refused = function(event(chat, number + 1, secret="wrong"))["statusCode"]
            if (refused, len(services.items)) != (401, number):
                sys.exit(f"{name} stored {len(services.items)} of {number} messages, and answered {refused} to a wrong secret")
    finally:
        function.stop()
    return {"cold": times[0], "warm": times[1:], "peak": int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6}


def summary(launches):
    """Returns median, minimum and maximum of the cold starts, the percentiles of all warm answers, and the highest memory."""
    cold, warm = sorted(each["cold"] for each in launches), sorted(one for each in launches for one in each["warm"])
    return {"cold": [statistics.median(cold), cold[0], cold[-1]], "p50": statistics.median(warm), "p99": warm[math.ceil(0.99 * len(warm)) - 1],
            "peak": max(each["peak"] for each in launches)}


def measure(python, node, bootstraps, rounds, warm):
    """Returns the figures of all programs: `rounds` starts of each, with `warm` messages after the first."""
    programs, services, share = build(python, node, bootstraps), Services(), Share()
    env = {"PATH": os.environ["PATH"], "HOME": str(WORK), "AWS_ENDPOINT_URL": services.url, "AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-central-1",
           "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token", "ANNALS_SECRETS": "annals",
           "ANNALS_TABLE": "annals", "ANNALS_BUCKET": "annals", "ANNALS_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/123456789012/annals.fifo",
           "TELEGRAM_BOT_TOKEN": "123456:bench", "TELEGRAM_WEBHOOK_SECRET_TOKEN": SECRET, "TELEGRAM_API_BASE_URL": services.url}
    launches = {name: {"full": [], **({"share": []} if share.how else {})} for name in programs}
    try:
        # In turn, so that other load on this machine affects all alike. The first round is not counted; it brings all files into the page cache.
        for round_ in range(rounds + 1):
            for number, (name, kinds) in enumerate(launches.items(), 1):
                for kind in kinds:
                    taken = launch(services, name, programs[name], env, share if kind == "share" else None, 100 * round_ + number, warm)
                    if round_:
                        kinds[kind].append(taken)
                print(f"round {round_}:", name, *(f"{kind} {done[-1]['cold']:.1f} ms" for kind, done in kinds.items() if done), flush=True)
    finally:
        share.stop()
        services.shutdown()
        services.server_close()
    version = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "cores": os.cpu_count(), "rounds": rounds, "warm": warm, "how": share.how, "node": version[1:],
            "python": platform.python_version(), "package": {name: zipped(files) / 1e6 for name, (_, _, files) in programs.items()},
            "programs": {name: {kind: summary(done) for kind, done in kinds.items()} for name, kinds in launches.items()}}


def table(figures, kind):
    programs = {name: kinds[kind] for name, kinds in figures["programs"].items()}
    bare = programs["minimal"]
    rows = [f"| with {KINDS[kind]} | cold, ms: median (min–max) | times bare Rust's | warm, ms: p50 | p99 | p50, times bare Rust's | peak memory, MB | package, MB |",
            "|---" * 8 + "|"]
    for name, row in programs.items():
        median, low, high = (f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value in row["cold"])
        rows.append(f"| {LABELS[name]} | {median} ({low}–{high}) | {row['cold'][0] / bare['cold'][0]:.1f} | {row['p50']:.1f} | {row['p99']:.1f} | "
                    f"{row['p50'] / bare['p50']:.1f} | {row['peak']:.1f} | {figures['package'][name]:.1f} |")
    return "\n".join(rows)


def plot(programs):
    """Returns an SVG of the cold starts: a row for each program, a dot for all cores, and a ring for the share."""
    width, left, right, top, step = 760, 100, 40, 96, 44
    height = top + step * len(programs) + 44
    every = [value for kinds in programs.values() for row in kinds.values() for value in row["cold"]]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    at = lambda value: left + (math.log10(value) - low) / max(high - low, 1) * (width - left - right)
    bottom, title = top + step * len(programs) - 20, "A cold start: milliseconds to the first answer"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">',
           page.style([COLOURS[name] for name in programs]), f'<rect class="ground" width="{width}" height="{height}"/>',
           f'<text class="title" x="16" y="26">{title}</text>',
           f'<text x="16" y="45">dot: {KINDS["full"]}; ring: {KINDS["share"]}; medians, with lines from minimum to maximum; logarithmic axis</text>']
    for power in range(low, high + 1):
        x = at(10 ** power)
        out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 28}" y2="{bottom}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{10 ** power:,}</text>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{bottom + 40}" text-anchor="middle">milliseconds</text>')
    for index, (name, kinds) in enumerate(programs.items()):
        y = top + step * index
        out.append(f'<g class="{COLOURS[name]}"><text class="label" x="16" y="{y + 4}">{SHORT[name]}</text>')
        for lane, (kind, row) in enumerate(kinds.items()):
            median, least, most = map(at, row["cold"])
            lane_y = y - 8 + 16 * lane
            out.append(f'<path class="line" d="M{least:.1f} {lane_y} L{most:.1f} {lane_y}"/>')
            ring = ' style="fill: none; stroke: var(--c); stroke-width: 2"' if kind == "share" else ""
            out.append(f'<circle class="dot" cx="{median:.1f}" cy="{lane_y}" r="5"{ring}/>')
            out.append(f'<text x="{most + 10:.1f}" y="{lane_y + 4}">{row["cold"][0]:,.0f}</text>')
        out.append("</g>")
    return "\n".join([*out, "</svg>", ""])


def write(figures, out):
    """Writes the plot, and returns the section of the page."""
    (out / "images/benchmark-cold.svg").write_text(plot(figures["programs"]), encoding="utf-8")
    kinds = [kind for kind in KINDS if kind in figures["programs"]["minimal"]]
    share = SHARE.format(how=figures["how"]) if figures["how"] else "not measured, since this needs the right to create a cgroup."
    return SECTION.format(tables="\n\n".join(table(figures, kind) for kind in kinds), share=share, **figures)


SHARE = """2.9 ms of a processor in each 20 ms, by {how}, as Lambda gives from the first event on; before it, all
  have a whole one."""
HEADING = "\n## Cold start\n"
SECTION = HEADING + """
![Milliseconds from the start of a process to its first answer](images/benchmark-cold.svg)

{tables}

Each program gets a message of Telegram from a stand-in for Lambda's runtime API, then {warm} others. *Cold* is the time from the start of the
process to its first answer, *warm* the time from a later event to its answer. All are started in turn, {rounds} times after a round that is
not counted, on a machine of {cores} cores. A package is what is uploaded, zipped. Measured on {date}.

- Each program checks Telegram's secret, reads the update, and puts the message into DynamoDB if it is not there. The run ends if a message is
  missing or stored twice, or if a wrong secret is accepted. Bare Rust (`bench/minimal`) only puts what it gets. Annals also reads its secrets
  when it starts, and queues a turn for each message.
- Compare the ratios. AWS and Telegram are one stand-in, without TLS. What Lambda needs to fetch a package and start its machine is not included.
- Node is {node}, with handler, libraries and SDK bundled and minified. Lambda's own client for Node needs cmake to build, so a loop of 25 lines
  takes its place. Python is {python}, with Lambda's own client, and without boto3 in its package: Lambda provides it.
- The Chat SDK asks Telegram for the bot's name when it starts, and sends `typing` with each message.
- The share of 256 MB is {share}
"""
