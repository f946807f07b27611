"""A counting proxy in front of an emulator of AWS.

It asks DynamoDB for the consumed capacity of each request (so it signs again), and adds up requests, bytes of bodies in both
directions, and units. It answers SQS's `SendMessage` itself and keeps the turns. All else is forwarded as it came."""
import collections, hashlib, hmac, http.client, http.server, json, math, socketserver, threading, time, unittest

READS = {"GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"}
CAPACITY = READS | {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}


class Count(collections.Counter):
    """Sums of `reads` and `writes` (units), `requests`, `bytes`, `dynamodb`, `s3_put`, `s3_get` and `sqs` (requests),
    `written` (requests that changed something)."""


def size(value):
    """Bytes of an attribute value, by the rules that DynamoDB publishes for item sizes."""
    (kind, content), = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "B":
            return len(content) * 3 // 4 - content.count("=")
        case "N":
            digits = content.lstrip("-").replace(".", "").strip("0")
            return math.ceil(len(digits) / 2) + 1 + content.startswith("-")
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + size(each) for each in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + size(each) for name, each in content.items())
        case "SS" | "NS" | "BS":
            return sum(size({kind[0]: each}) for each in content)
    raise ValueError(kind)


def item_size(item):
    return sum(len(name.encode()) + size(value) for name, value in item.items())


def write_units(bytes_):
    return max(1, math.ceil(bytes_ / 1024))


def units(operation, request, status, answer):
    """Returns the read and write units of one operation. A refused condition is charged like the write."""
    if status != 200:
        kind = answer.get("__type", "").rpartition("#")[2]
        if kind == "ConditionalCheckFailedException":
            return 0, write_units(max(item_size(request.get("Item", {})), item_size(answer.get("Item", {}))))
        if kind == "TransactionCanceledException":
            puts = [next(iter(each.values())).get("Item", {}) for each in request["TransactItems"]]
            return 0, sum(2 * write_units(item_size(put)) for put in puts)
        return 0, 0
    used = answer.get("ConsumedCapacity") or []
    total = sum(each["CapacityUnits"] for each in (used if isinstance(used, list) else [used]))
    return (total, 0) if operation in READS else (0, total)


def sign(secret, access, region, host, headers, body):
    """Returns the headers of a signed DynamoDB request (Signature Version 4)."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    signed = {"content-type": headers["Content-Type"], "host": host, "x-amz-date": now, "x-amz-target": headers["X-Amz-Target"]}
    names = ";".join(signed)
    canonical = "\n".join(["POST", "/", "", *(f"{name}:{value}" for name, value in signed.items()), "", names,
                           hashlib.sha256(body).hexdigest()])
    scope = f"{now[:8]}/{region}/dynamodb/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return {**signed, "authorization": f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"}


class Proxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """The proxy, in threads of its own. `take` returns what was counted since the last call."""
    daemon_threads, request_queue_size = True, 256

    def __init__(self, emulator, access, secret, region):
        self.emulator, self.access, self.secret, self.region = emulator, access, secret, region
        self.lock, self.count, self.turns = threading.Lock(), Count(), []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self):
        with self.lock:
            count, self.count = self.count, Count()
        return count

    def take_turns(self):
        with self.lock:
            turns, self.turns = self.turns, []
        return turns


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

    def setup(self):
        super().setup()
        self.upstream, self.used = http.client.HTTPConnection(self.server.emulator, timeout=120), 0.0

    def handle_expect_100(self):
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def finish(self):
        self.upstream.close()
        super().finish()

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def handle_one(self):
        sent = body = self.body()
        target = self.headers.get("X-Amz-Target", "")
        service, _, operation = target.partition(".")
        request = json.loads(body) if service.startswith("DynamoDB_") else {}
        if target == "AmazonSQS.SendMessage":
            message = json.loads(body)["MessageBody"]
            with self.server.lock:
                self.server.turns.append(json.loads(message))
            answer = json.dumps({"MessageId": "059f36b4-87a3-44ab-83d2-661975830a7d", "SequenceNumber": "18849496460467696128",
                                 "MD5OfMessageBody": hashlib.md5(message.encode()).hexdigest()}).encode()
            status, headers = 200, {"Content-Type": "application/x-amz-json-1.0"}
        else:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("transfer-encoding", "connection", "expect")}
            if operation in CAPACITY:
                sent = json.dumps({**request, "ReturnConsumedCapacity": "INDEXES"}, ensure_ascii=False).encode()
                headers = sign(self.server.secret, self.server.access, self.server.region, self.server.emulator, self.headers, sent)
            headers["Content-Length"] = str(len(sent))
            if time.monotonic() - self.used > 2:
                self.upstream.close()  # the emulator closes idle connections
            self.used = time.monotonic()
            self.upstream.request(self.command, self.path, sent, headers)
            response = self.upstream.getresponse()
            answer = response.read()
            status, headers = response.status, dict(response.getheaders())
        with self.server.lock:
            count = self.server.count
            count["requests"] += 1
            count["bytes"] += len(body) + len(answer)
            changes = operation in CAPACITY - READS or not service and self.command in ("PUT", "POST", "DELETE")
            count["written"] += changes and status < 300
            if operation in CAPACITY:
                reads, writes = units(operation, request, status, json.loads(answer))
                count["reads"] += reads
                count["writes"] += writes
                count["dynamodb"] += 1
            elif service == "AmazonSQS":
                count["sqs"] += 1
            elif not service:
                listing = self.command == "GET" and "list-type" in self.path
                count["s3_put" if listing or self.command in ("PUT", "POST") else "s3_get"] += 1
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "x-amz-crc32"):
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", headers.get("content-length", "0")) if self.command == "HEAD" else str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)
        self.wfile.flush()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one


class Arithmetic(unittest.TestCase):
    """What the proxy adds up."""

    def test_sizes_follow_the_published_rules(self):
        self.assertEqual(size({"S": "早上"}), 6)
        self.assertEqual([size({"N": n}) for n in ("7", "100", "-27", "1795305600000")], [2, 2, 3, 5])
        self.assertEqual(size({"L": [{"S": "ab"}]}), 3 + 1 + 2)
        self.assertEqual(size({"M": {"a": {"BOOL": True}}}), 3 + 1 + 1 + 1)
        self.assertEqual(item_size({"pk": {"S": "chat"}, "n": {"N": "7"}}), 2 + 4 + 1 + 2)

    def test_a_refused_condition_is_charged_and_a_wrong_request_is_not(self):
        put = {"Item": {"pk": {"S": "x" * 1500}}}
        self.assertEqual(units("PutItem", put, 400, {"__type": "a#ConditionalCheckFailedException"}), (0, 2))
        self.assertEqual(units("PutItem", put, 400, {"__type": "a#ValidationException"}), (0, 0))

    def test_capacity_is_summed_over_tables(self):
        used = {"ConsumedCapacity": [{"CapacityUnits": 2.0}, {"CapacityUnits": 0.5}]}
        self.assertEqual(units("BatchGetItem", {}, 200, used), (2.5, 0))
        self.assertEqual(units("PutItem", {}, 200, {"ConsumedCapacity": {"CapacityUnits": 3.0}}), (0, 3.0))
