"""A simulation of larger loads from the measured units, and the page docs/scale.md."""
import heapq, math, random, unittest

import page

RATES = [1, 100, 10_000]
SECONDS = 60
# Assumptions, stated in the page.
EVERY = 1200                # seconds between two messages of a chat, on average
MODEL_SECS, OWN_SECS = 4.0, 0.1
WEBHOOK_SECS = 0.025
AGENT_GB = HTTP_GB = 0.5    # as in infra/template.yaml
REMEMBERED = 18 * 3600      # for so long a process knows that it has registered a chat
# Quotas: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html,
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html,
# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
# Of one record, from bench/README.md#cost: a visit that archives 100 of them, in two objects.
ARCHIVING = {"writes": 5 / 100, "reads": 195 / 100, "s3_put": 2 / 100}
RECORD_DAYS = 9
GATEWAY, TABLE_GB_MONTH = 1e-6, 0.25
INDEX_SHARDS, VISITS_A_RUN, RUNS_A_DAY = 16, 5_000, 96


def simulate(arrivals, run_secs):
    """Runs the turns of `arrivals` (seconds and chats, in order), with as many runs at once as there are chats to answer.

    A chat has one run at a time; a run covers all that is unanswered when it starts. Returns the number of runs, the most at once,
    and the waits until the answers."""
    pending, ends, free_at = {}, [], {}
    runs, most, waits = 0, 0, []
    busy = 0

    def start(now, chat):
        nonlocal runs, most, busy
        runs += 1
        busy += 1
        most = max(most, busy)
        free_at[chat] = now + run_secs
        waits.extend(now + run_secs - at for at in pending.pop(chat))
        heapq.heappush(ends, (now + run_secs, chat))

    def until(now):
        nonlocal busy
        while ends and ends[0][0] <= now:
            end, chat = heapq.heappop(ends)
            busy -= 1
            if chat in pending:
                start(end, chat)
            else:
                free_at.pop(chat)

    for at, chat in arrivals:
        until(at)
        pending.setdefault(chat, []).append(at)
        if chat not in free_at:
            start(at, chat)
    until(math.inf)
    return runs, most, sorted(waits)


def arrivals(rate, seed=1):
    """Returns messages of `rate` a second, for chats of which the busiest tenth sends a third."""
    dice = random.Random(seed)
    chats, at, out = rate * EVERY, 0.0, []
    while (at := at + dice.expovariate(rate)) < SECONDS:
        out.append((at, int(chats * dice.random() ** 2)))
    return out


def entries(rate):
    """Returns the share of appends that register their chat: with more processes, fewer of them have seen a chat before."""
    processes = max(1, math.ceil(rate * WEBHOOK_SECS))
    said = REMEMBERED / EVERY
    return processes * (1 - (1 - 1 / processes) ** said) / said


class Load:
    """What a rate of messages a second takes, a second."""

    def __init__(self, figures, rate):
        row = figures["cost"]["annals"]["250"]
        self.rate = rate
        made = arrivals(rate)
        runs, self.most, waits = simulate(made, MODEL_SECS + OWN_SECS)
        busiest = {}
        for _, chat in made:
            busiest[chat] = busiest.get(chat, 0) + 1
        self.busiest = max(busiest.values()) / SECONDS
        self.p50, self.p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        self.runs = runs / len(made)  # of a message
        records = 1 + self.runs
        self.entries = entries(rate)
        # Registering costs one unit in the index; a visit takes it away with one in the table and one in the index.
        # A turn with its share of compactions: the measured exchange without its append.
        turn = lambda unit: row["exchanges"].get(unit, 0) / 100 - row["append"].get(unit, 0)
        self.writes = row["append"]["writes"] + self.runs * turn("writes") + records * ARCHIVING["writes"] + 3 * self.entries
        self.reads = self.runs * turn("reads") + records * ARCHIVING["reads"]
        self.index = 2 * self.entries / INDEX_SHARDS
        bytes_ = row["load"]["bytes"] / row["load"]["shown"]
        month = rate * page.HOURS * 3600
        self.month = {
            "table": month * (self.writes * page.WRITE + self.reads * page.READ) + rate * records * RECORD_DAYS * 86400 * bytes_ / 2**30 * TABLE_GB_MONTH,
            "queue": month * 3 * page.SQS,
            "S3": month * (self.runs * turn("s3_put") + records * ARCHIVING["s3_put"]) * page.S3_PUT,
            "gateway": month * GATEWAY,
            "webhooks": month * (page.LAMBDA_REQUEST + HTTP_GB * WEBHOOK_SECS * page.LAMBDA_GB_SECOND),
            "agent": month * self.runs * (page.LAMBDA_REQUEST + AGENT_GB * (MODEL_SECS + OWN_SECS) * page.LAMBDA_GB_SECOND),
        }


def limits(load):
    """Returns the loads in messages a second at which each limit is reached, with units of a message as in `load`."""
    visits = EVERY / 86400  # one a day of each chat
    rows = [
        (1000 / load.runs / (MODEL_SECS + OWN_SECS), "concurrent executions of the account: 1,000 by default, 10 in new accounts", "turns wait in the queue",
         "the quota, then `AgentMaximumTurns`, `AgentConcurrency`; a faster model"),
        (VISITS_A_RUN * RUNS_A_DAY / 86400 / visits, "the compactor: 5,000 chats a run, a run every 15 minutes", "visits fall behind; `CompactorOverdue`",
         "`CompactorSchedule`, and `ARCHIVE_GRACE` for the time until then"),
        (4000 / load.writes, "a new table: 4,000 write units a second, then twice the earlier peak", "throttling; platforms deliver again", "warm throughput"),
        (40000 / load.writes, "a table: 40,000 write units a second", "throttling", "the quota"),
        (40000 / load.reads, "a table: 40,000 read units a second", "throttling", "the quota; a smaller `CONTEXT_WINDOW`"),
        (1000 / load.index, "a partition of the index of due chats: 1,000 write units a second, 16 partitions", "appends that register a chat are throttled", "`SHARDS` in the code"),
        (10000, "HTTP API: 10,000 requests a second", "429; platforms deliver again", "the quota, then `ApiRateLimit`, `ApiBurstLimit`"),
        (70000, "SQS FIFO: 70,000 calls of each kind a second in the largest regions, 2,400 in the smallest", "webhooks fail; platforms deliver again", "the quota"),
        (120000 / load.runs / (MODEL_SECS + OWN_SECS), "SQS FIFO: 120,000 messages in flight", "a backlog of one chat delays others", "as for executions"),
    ]
    return sorted(rows)


def write(figures, out):
    if "annals" not in figures["cost"] or "250" not in figures["cost"]["annals"]:
        return
    loads = [Load(figures, rate) for rate in RATES]
    row = lambda name, show: f"| {name} | " + " | ".join(show(load) for load in loads) + " |"
    table = "\n".join([
        "| messages a second | " + " | ".join(f"{rate:,}" for rate in RATES) + " |", "|---" * (len(RATES) + 1) + "|",
        row("chats that write", lambda load: f"{load.rate * EVERY:,}"),
        row("runs of the agent a message", lambda load: f"{load.runs:.3f}"),
        row("runs at once, at most", lambda load: f"{load.most:,}"),
        row("wait for an answer, s: median, p99", lambda load: f"{load.p50:.1f}, {load.p99:.1f}"),
        row("messages a second in the busiest chat", lambda load: f"{load.busiest:.2f}"),
        row("appends that register their chat", lambda load: f"{load.entries:.0%}"),
        row("write units a second", lambda load: f"{load.writes * load.rate:,.0f}"),
        row("read units a second", lambda load: f"{load.reads * load.rate:,.0f}"),
        row("write units a second in a partition of the index", lambda load: f"{load.index * load.rate:,.2f}"),
        row("visits of the compactor a second", lambda load: f"{load.rate * EVERY / 86400:,.2f}"),
        *(row(f"dollars a month: {name}", lambda load, name=name: f"{load.month[name]:,.2f}") for name in loads[0].month),
        row("**dollars a month, without the model**", lambda load: f"**{sum(load.month.values()):,.0f}**"),
    ])
    broken = "\n".join(f"| {at:,.0f} | {what} | {then} | {setting} |" for at, what, then, setting in limits(loads[-1]))
    one = figures["cost"]["annals"]["250"]
    chat = 1000 / one["append"]["writes"]
    (out / "scale.md").write_text(PAGE.format(table=table, broken=broken, chat=f"{chat:,.0f}", date=figures["date"]), encoding="utf-8")


PAGE = """# What breaks first, and what it costs

For people who plan for more than one bot's load. Written by `just bench`; do not edit. It is a simulation (`bench/compare/scale.py`) from
the units that [benchmarks.md](benchmarks.md) measured in a chat of 250 messages; nothing here ran on AWS.

## Three loads

{table}

- Each message asks. A chat writes every 20 minutes on average, and the busiest tenth of the chats writes a third of the messages. 60 seconds
  are simulated, with arrivals at random. A run answers all that is unanswered in its chat.
- Assumed: a run waits 4 seconds for its model, which is nearly all of the agent's cost, and takes 0.1 of its own; a webhook takes 0.025.
- A turn has the mean units of 100 turns with their compactions; archiving is a visit for 100 records, as
  [measured](../bench/README.md#cost). Each chat is visited once a day. Records stay in the table for nine days. Not in the dollars: storage in
  S3, logs, traffic to the internet, the compactor's function.
- Each process of a webhook registers a chat once in 18 hours. A message that registers its chat costs three units more: one to register, two
  when a visit takes the entry away.
- Prices are those of [benchmarks.md](benchmarks.md#cost-of-a-million-messages); storage of the table
  [$0.25 per GB-month](https://aws.amazon.com/dynamodb/pricing/).

## What breaks first

With the units of the largest load, and AWS's default limits and Annals' own:

| messages a second | limit | then | what moves it |
|---|---|---|---|
{broken}

In one chat: a partition takes 1,000 write units a second, so {chat} messages over HTTP with an id, or some 900 of a platform.
AWS's pages of quotas are named in `scale.py`. What an operator sees: [operations.md](operations.md#aws-limits).
"""


class Turns(unittest.TestCase):
    """The rules of the simulation."""

    def test_a_chat_has_one_run_and_the_next_covers_all_that_came(self):
        runs, most, waits = simulate([(0, "a"), (1, "a"), (2, "a")], 4)
        self.assertEqual((runs, most), (2, 1))
        self.assertEqual(waits, [4, 6, 7])

    def test_chats_do_not_wait_for_each_other(self):
        runs, most, waits = simulate([(0, "a"), (1, "b"), (9, "c")], 4)
        self.assertEqual((runs, most, waits), (3, 2, [4, 4, 4]))

    def test_one_process_registers_a_chat_once(self):
        self.assertAlmostEqual(entries(1), EVERY / REMEMBERED)
        self.assertLess(entries(100), entries(10_000))
        self.assertLess(entries(10_000), 1)
