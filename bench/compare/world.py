"""The emulator behind the proxy, and the clients: Annals' functions, and the libraries in processes of their own."""
import collections, contextlib, http.server, json, os, pathlib, queue, random, re, subprocess, sys, threading, time, urllib.parse, urllib.request

import page, proxy

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK, BINARIES = ROOT / "target/compare", ROOT / "target/debug"
KEY = "bench-secret"
PARTS = [
    ("明天早上九点的会议改到了十点半,会议室也换成了三楼的那一间", "The deploy on Thursday is moved to Friday, since the tests were still red"),
    ("我妈妈下周三过生日,帮我想想送什么礼物比较合适", "Could you look at the invoice from March? The total does not match the list"),
    ("上海这几天一直在下雨,周末的露营可能要取消了", "We decided to keep the blue logo and to drop the second slogan"),
    ("预算表我已经发到群里了,请大家今天下班前确认一下", "Remind me to call the dentist before noon, and to bring the old X-rays"),
    ("这个接口返回的时间是UTC,前端显示的时候要加八个小时", "The train leaves at 17:42 from platform 6, so let us meet at the kiosk"),
]


def text(index):
    """Returns the text of a message: Chinese and English in turn, of one to three sentences."""
    pick = random.Random(index)
    said = [pick.choice(PARTS)[index % 2] for _ in range(pick.randint(1, 3))]
    return f"{index}: " + ("。" if index % 2 == 0 else ". ").join(said)


class Worker:
    """A process that speaks the protocol of clients.py."""

    def __init__(self, command, env, folder=None):
        self.log = open(WORK / "clients.log", "ab")
        self.process = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def __call__(self, do, chat, **more):
        self.process.stdin.write(json.dumps({"do": do, "chat": chat, **more}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        sys.exit(f"a client has ended, see {WORK / 'clients.log'}")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Function:
    """A process of a Lambda function, and its runtime API. `asked` is set when it asks for an event. `started`, `given` and `answered`
    are the times, in seconds, of the process's start, of the last event and of its answer."""

    def __init__(self, binary, env, *arguments, folder=None):
        self.events, self.answers, self.asked = queue.Queue(), queue.Queue(), threading.Event()
        function = self

        class Api(http.server.BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

            def handle(self):
                with contextlib.suppress(ConnectionResetError):  # by a process that was killed
                    super().handle()

            def do_GET(self):
                function.asked.set()
                event = function.events.get()
                if event is None:
                    self.close_connection = True
                    return
                function.given = time.perf_counter()
                self.reply(200, json.dumps(event).encode(), {
                    "Lambda-Runtime-Aws-Request-Id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd", "Content-Type": "application/json",
                    "Lambda-Runtime-Deadline-Ms": str(int(time.time() * 1000) + 300_000),
                    "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:123456789012:function:bench"})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                function.answered = time.perf_counter()
                function.answers.put((self.path.rpartition("/")[2], json.loads(body or b"null")))
                self.reply(202, b"", {})

            def reply(self, status, body, headers):
                self.send_response_only(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        env = {**env, "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.server.server_port}", "AWS_LAMBDA_FUNCTION_NAME": binary.name,
               "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "AWS_LAMBDA_LOG_FORMAT": "JSON", "RUST_LOG": "error",
               "AWS_LAMBDA_LOG_GROUP_NAME": "bench", "AWS_LAMBDA_LOG_STREAM_NAME": "bench"}
        self.log = open(WORK / "functions.log", "ab")
        self.started = time.perf_counter()
        self.process = subprocess.Popen([binary, *arguments], env=env, cwd=folder, stdout=self.log, stderr=self.log)

    def __call__(self, event):
        self.events.put(event)
        kind, answer = self.answers.get(timeout=120)
        if kind != "response":
            sys.exit(f"a function failed: {answer}")
        return answer

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.events.put(None)
        self.server.shutdown()
        self.server.server_close()
        self.log.close()


class Annals:
    """Annals as deployed: `functions/http` receives, `functions/agent` answers the turns that the proxy keeps."""

    def __init__(self, world):
        self.world = world
        self.http_env = {**world.env, **page.SETTINGS, "HTTP_API_KEYS": f"bench:{KEY}:admin"}
        self.http = Function(BINARIES / "http", self.http_env)
        self.agent = Function(BINARIES / "agent", self.http_env)
        self.event = json.loads((ROOT / "infra/events/http-message.json").read_text())
        self.turn = json.loads((ROOT / "infra/events/agent-turn.json").read_text())
        self.number = 0

    def call(self, method, path, body=None, http=None):
        event = json.loads(json.dumps(self.event))
        event.update(rawPath=path, body=json.dumps(body) if body else None)
        event["headers"]["authorization"] = f"Bearer {KEY}"
        event["headers"].pop("content-length")
        event["requestContext"]["http"].update(method=method, path=path)
        answer = (http or self.http)(event)
        if answer["statusCode"] not in (200, 202):
            raise RuntimeError(f"{answer['statusCode']}: {answer['body']}")
        return json.loads(answer["body"])

    def send(self, chat, message_id, said, at=None, http=None):
        self.call("POST", f"/v1/chats/{chat}/messages", {"userId": "ada", "messageId": message_id, "text": said, **({"ts": at} if at else {})}, http)

    def answer(self, turns):
        for turn in turns:
            event = json.loads(json.dumps(self.turn))
            event["Records"][0]["body"] = json.dumps(turn)
            event["Records"][0]["attributes"]["MessageGroupId"] = f"bench-{turn['chat']}"
            if failures := self.agent(event)["batchItemFailures"]:
                raise RuntimeError(failures)

    def __call__(self, do, chat, **command):
        try:
            match do:
                case "fill":
                    self.world.import_chat(chat, command["texts"])
                    # A turn, so that the head of the chat knows where its context starts, as in a chat that is used.
                    self.send(chat, "first", text(0))
                    self.answer(self.world.proxy.take_turns())
                case "append":
                    # All forms of a message have its own time, as on a platform.
                    at = self.world.started + int(command["id"].lstrip("m") if command["id"].startswith("m") else 0) % 1000
                    self.send(chat, command["id"], command["text"], at)
                case "load":
                    context = self.call("GET", f"/v1/chats/{chat}/context")
                    return {"count": self.world.records(f"http:chat:bench:{chat}"), "shown": len(context["messages"])}
                case "race":
                    functions = [Function(BINARIES / "http", self.http_env) for _ in command["texts"]]
                    for function in functions:
                        self.call("GET", f"/v1/chats/{chat}/context", http=function)
                    errors = []

                    def one(index, function):
                        try:
                            self.send(chat, f"r{index:08}", command["texts"][index], http=function)
                        except RuntimeError as error:
                            errors.append(str(error))

                    threads = [threading.Thread(target=one, args=each) for each in enumerate(functions)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    for function in functions:
                        function.stop()
                    self.world.proxy.take_turns()
                    return {"errors": errors}
        except RuntimeError as error:
            return {"error": str(error)}
        return {}

    def stop(self):
        self.http.stop()
        self.agent.stop()


class World:
    """The emulator and the proxy."""

    def __init__(self, folder):
        self.folder, self.started = pathlib.Path(folder), int(time.time() * 1000)
        self.program = BINARIES / "annals"
        self.local = {"PATH": os.environ["PATH"], "HOME": folder, "ANNALS_DATA_DIR": f"{folder}/data", "ANNALS_PORT": "0", "MEMORY": "off",
                      "HTTP_API_KEYS": f"bench:{KEY}:admin"}
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([self.program, "aws", "--port", "0"], env=self.local, stdout=subprocess.PIPE, stderr=log, text=True)
        exports = {}
        for line in self.process.stdout:
            if export := re.match(r"export (\w+)=(\S+)", line):
                exports[export[1]] = export[2]
            if {"AWS_ENDPOINT_URL", "ANNALS_QUEUE_URL", "AWS_SECRET_ACCESS_KEY", "ANNALS_BUCKET", "ANNALS_TABLE"} <= exports.keys():
                break
        else:
            sys.exit((self.folder / "log").read_text())
        threading.Thread(target=lambda: collections.deque(self.process.stdout, 0), daemon=True).start()
        emulator = urllib.parse.urlsplit(exports["AWS_ENDPOINT_URL"]).netloc
        self.proxy = proxy.Proxy(emulator, exports["AWS_ACCESS_KEY_ID"], exports["AWS_SECRET_ACCESS_KEY"], exports["AWS_REGION"])
        # S3's host is signed, so its requests name the emulator; the others are signed again by the proxy.
        keep = {name: value for name, value in exports.items() if name.startswith(("AWS_", "ANNALS_")) and name != "ANNALS_SECRETS"}
        self.env = {"PATH": os.environ["PATH"], "HOME": folder, "MEMORY": "off", **keep, "AWS_DEFAULT_REGION": exports["AWS_REGION"],
                    "AWS_ENDPOINT_URL": self.proxy.url, "EMULATOR": f"http://{emulator}", "AWS_EC2_METADATA_DISABLED": "true", "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"}

    def dynamodb(self, operation, is_counted=True, **request):
        body = json.dumps(request).encode()
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
        host = urllib.parse.urlsplit(self.proxy.url).netloc
        if not is_counted or operation not in proxy.CAPACITY:
            host = self.proxy.emulator
            headers = proxy.sign(self.proxy.secret, self.proxy.access, self.proxy.region, host, headers, body)
        with urllib.request.urlopen(urllib.request.Request(f"http://{host}/", body, headers)) as answer:
            return json.load(answer)

    def import_chat(self, chat, texts):
        spacing = 200
        start = self.started - spacing * len(texts) - 60_000
        with open(self.folder / "chat.jsonl", "w", encoding="utf-8") as lines:
            for index, said in enumerate(texts):
                role = "assistant" if index % 2 else "user"
                message = {"id": f"f{index}", "role": role, "parts": [{"type": "text", "text": said}], "metadata": {"ts": start + spacing * index}}
                lines.write(json.dumps(message, ensure_ascii=False) + "\n")
        subprocess.run([self.program, "import", "--chat", f"http:chat:bench:{chat}", self.folder / "chat.jsonl"], env=self.local, check=True, stdout=subprocess.DEVNULL)

    def records(self, partition):
        """Returns the number of stored messages of the partition that were sent or imported."""
        count, start = 0, {}
        while True:
            page_ = self.dynamodb("Query", TableName=self.env["ANNALS_TABLE"], KeyConditionExpression="pk = :pk AND sk BETWEEN :from AND :to",
                                  ExpressionAttributeValues={":pk": {"S": partition}, ":from": {"S": "0"}, ":to": {"S": ":"}}, **start)
            count += sum(item["sk"]["S"].count("#") == 1 for item in page_["Items"])
            if "LastEvaluatedKey" not in page_:
                return count
            start = {"ExclusiveStartKey": page_["LastEvaluatedKey"]}

    def make_tables(self):
        def table(name, keys, indexes=()):
            schema = lambda names: [{"AttributeName": key, "KeyType": kind} for key, kind in zip(names, ("HASH", "RANGE"))]
            names = dict.fromkeys([*keys, *(key for index in indexes for key in index[1])])
            request = {"TableName": name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema(keys),
                       "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in names]}
            if indexes:
                request["GlobalSecondaryIndexes"] = [{"IndexName": index, "KeySchema": schema(of), "Projection": {"ProjectionType": "ALL"}} for index, of in indexes]
            self.dynamodb("CreateTable", **request)

        table("bare", ["pk", "sk"])
        table("powertools", ["id"])
        table("langchain", ["SessionId"])
        table("langgraph", ["PK", "SK"])
        table("mastra", ["pk", "sk"], [(f"gsi{n}", (f"gsi{n}pk", f"gsi{n}sk")) for n in (1, 2)])
        table("known", ["pk", "sk"], [("index", ("gsi", "sk"))])

    def check_units(self):
        """Compares the emulator's units with those that DynamoDB publishes, for items of known size. Returns the number of checks."""
        def item(size, sk="1", **more):
            more = {"pk": {"S": "p"}, "sk": {"S": sk}, **more}
            return {**more, "a": {"S": "x" * (size - proxy.item_size(more) - 1)}}

        key = {"pk": {"S": "p"}, "sk": {"S": "1"}}
        query = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "p"}}}
        checks = [
            ("PutItem", {"Item": item(1024)}, 0, 1), ("PutItem", {"Item": item(1025)}, 0, 2), ("PutItem", {"Item": item(100)}, 0, 2),
            ("UpdateItem", {"Key": key, "UpdateExpression": "SET b = :b", "ExpressionAttributeValues": {":b": {"S": "y" * 3000}}}, 0, 4),
            ("PutItem", {"Item": item(4096)}, 0, 4), ("GetItem", {"Key": key}, 0.5, 0), ("GetItem", {"Key": key, "ConsistentRead": True}, 1, 0),
            ("PutItem", {"Item": item(4097)}, 0, 5), ("GetItem", {"Key": key}, 1, 0), ("GetItem", {"Key": {**key, "sk": {"S": "none"}}}, 0.5, 0),
            ("PutItem", {"Item": item(4000, "2")}, 0, 4), ("PutItem", {"Item": item(4000, "3")}, 0, 4), ("Query", query, 1.5, 0),
            ("Query", {**query, "ConsistentRead": True}, 3, 0), ("PutItem", {"Item": item(500, "4", gsi={"S": "g"})}, 0, 2),
            ("DeleteItem", {"Key": {**key, "sk": {"S": "2"}}}, 0, 4),
        ]
        for operation, request, reads, writes in checks:
            self.proxy.take()
            self.dynamodb(operation, TableName="known", **request)
            count = self.proxy.take()
            if (count["reads"], count["writes"]) != (reads, writes):
                sys.exit(f"{operation} took {count['reads']} R and {count['writes']} W, not {reads} and {writes}: {str(request)[:200]}")
        self.proxy.take()
        self.dynamodb("TransactWriteItems", TransactItems=[{"Put": {"TableName": "known", "Item": item(1500, "5")}}])
        if (took := self.proxy.take()["writes"]) != 4:
            sys.exit(f"a transaction took {took} W, not 4")
        return len(checks) + 1

    def fill_chats(self, sample, have, want):
        """Copies the registering record of one chat to others, until there are `want` chats."""
        items = self.dynamodb("Query", TableName=self.env["ANNALS_TABLE"], KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": {"S": sample}})["Items"]
        items = [item for item in items if "dueShard" in item][:1]
        if not items:
            sys.exit("the sample has no record that registers its chat")
        puts = ({"PutRequest": {"Item": {**item, "pk": {"S": f"{sample}-{number}"}}}} for number in range(have, want) for item in items)
        while batch := [put for _, put in zip(range(25), puts)]:
            self.dynamodb("BatchWriteItem", is_counted=False, RequestItems={self.env["ANNALS_TABLE"]: batch})

    def stop(self):
        self.proxy.shutdown()
        self.proxy.server_close()
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
