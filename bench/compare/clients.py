"""The Python libraries, one a process: `clients.py <name>`. A command a line comes in as JSON, an answer a line goes out.

    {"do": "fill", "chat": "c", "texts": [...]}        as the library writes many messages; not measured
    {"do": "append", "chat": "c", "id": "m1", "text": "..."}
    {"do": "load", "chat": "c"}                        answers {"count": <messages>}
    {"do": "race", "chat": "c", "texts": [...]}        one append a thread, each with a client of its own, at once"""
import json, os, sys, threading

import boto3
from botocore.config import Config

CONFIG = Config(retries={"max_attempts": 1}, max_pool_connections=50)
BUCKET = os.environ["ANNALS_BUCKET"]


class Bare:
    """One item a message, put without a condition, and a query of the partition."""

    def __init__(self):
        self.dynamodb = boto3.client("dynamodb", config=CONFIG)

    def append(self, chat, message_id, text):
        item = {"pk": chat, "sk": message_id, "role": "user", "text": text}
        self.dynamodb.put_item(TableName="bare", Item={name: {"S": value} for name, value in item.items()})

    def fill(self, chat, texts):
        for start in range(0, len(texts), 25):
            items = [{"pk": chat, "sk": f"f{start + index:08}", "role": "user", "text": text} for index, text in enumerate(texts[start:start + 25])]
            puts = [{"PutRequest": {"Item": {name: {"S": value} for name, value in item.items()}}} for item in items]
            self.dynamodb.batch_write_item(RequestItems={"bare": puts})

    def load(self, chat):
        pages = self.dynamodb.get_paginator("query").paginate(
            TableName="bare", KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": {"S": chat}})
        return sum(len(page["Items"]) for page in pages)


class Powertools(Bare):
    """The bare put as the body of an idempotent function."""

    def __init__(self):
        super().__init__()
        from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
        put = super().append
        self.guarded = idempotent_function(
            lambda *, message: put(message["chat"], message["id"], message["text"]), data_keyword_argument="message",
            persistence_store=DynamoDBPersistenceLayer(table_name="powertools", boto_config=CONFIG),
            config=IdempotencyConfig(event_key_jmespath="[chat, id]"), key_prefix="bench")

    def append(self, chat, message_id, text):
        self.guarded(message={"chat": chat, "id": message_id, "text": text})

    def fill(self, chat, texts):
        pass  # it reads nothing of the chat


class LangChain:
    """`DynamoDBChatMessageHistory` of langchain-community."""

    def history(self, chat):
        from langchain_community.chat_message_histories import DynamoDBChatMessageHistory
        return DynamoDBChatMessageHistory("langchain", chat)

    def message(self, message_id, text):
        from langchain_core.messages import HumanMessage
        return HumanMessage(text, id=message_id)

    def append(self, chat, message_id, text):
        self.history(chat).add_message(self.message(message_id, text))

    def fill(self, chat, texts):
        self.history(chat).add_messages([self.message(f"f{index:08}", text) for index, text in enumerate(texts)])

    def load(self, chat):
        return len(self.history(chat).messages)


class LangGraph:
    """`DynamoDBSaver` of langgraph-checkpoint-aws, under a graph of one node, with objects of over 350 KB in S3."""

    def __init__(self):
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph_checkpoint_aws import DynamoDBSaver
        graph = StateGraph(MessagesState)
        graph.add_node("person", lambda state: {})
        graph.add_edge(START, "person")
        graph.add_edge("person", END)
        saver = DynamoDBSaver("langgraph", boto_config=CONFIG, s3_offload_config={"bucket_name": BUCKET})
        self.graph = graph.compile(checkpointer=saver)

    def add(self, chat, messages):
        from langchain_core.messages import HumanMessage
        messages = [HumanMessage(text, id=message_id) for message_id, text in messages]
        self.graph.update_state({"configurable": {"thread_id": chat}}, {"messages": messages}, as_node="person")

    def append(self, chat, message_id, text):
        self.add(chat, [(message_id, text)])

    def fill(self, chat, texts):
        self.add(chat, [(f"f{index:08}", text) for index, text in enumerate(texts)])

    def load(self, chat):
        return len(self.graph.get_state({"configurable": {"thread_id": chat}}).values.get("messages", []))


class Strands:
    """`S3SessionManager` of strands-agents. An append is measured in a process that has loaded the chat."""

    def __init__(self):
        self.agents = {}

    def agent(self, chat, endpoint=None):
        from strands import Agent
        from strands.session.s3_session_manager import S3SessionManager
        from strands.agent.conversation_manager import NullConversationManager
        manager = S3SessionManager(chat, BUCKET, boto_client_config=CONFIG, endpoint_url=endpoint)
        agent = Agent(agent_id="bench", session_manager=manager, conversation_manager=NullConversationManager(), callback_handler=None)
        return manager, agent

    def prepare(self, chat):
        self.agents[chat] = self.agent(chat)

    def append(self, chat, message_id, text):
        if chat not in self.agents:
            self.prepare(chat)
        manager, agent = self.agents[chat]
        manager.append_message({"role": "user", "content": [{"text": text}]}, agent)

    def fill(self, chat, texts):
        self.agents[chat] = self.agent(chat, os.environ["EMULATOR"])
        for index, text in enumerate(texts):
            self.append(chat, f"f{index:08}", text)
        del self.agents[chat]

    def load(self, chat):
        return len(self.agent(chat)[1].messages)


CLIENTS = {"bare": Bare, "powertools": Powertools, "langchain": LangChain, "langgraph": LangGraph, "strands": Strands}


def race(kind, chat, texts):
    errors, barrier = [], threading.Barrier(len(texts))

    def one(client, index, text):
        barrier.wait()
        try:
            client.append(chat, f"r{index:08}", text)
        except Exception as error:  # noqa: BLE001 - it is the result
            errors.append(f"{type(error).__name__}: {error}")

    clients = [kind() for _ in texts]
    for client in clients:
        getattr(client, "prepare", client.load)(chat)
    threads = [threading.Thread(target=one, args=(client, *each)) for client, each in zip(clients, enumerate(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def main():
    kind = CLIENTS[sys.argv[1]]
    client = kind()
    for line in sys.stdin:
        command = json.loads(line)
        answer = {}
        try:
            match command["do"]:
                case "fill":
                    client.fill(command["chat"], command["texts"])
                case "append":
                    client.append(command["chat"], command["id"], command["text"])
                case "load":
                    answer["count"] = client.load(command["chat"])
                case "race":
                    answer["errors"] = race(kind, command["chat"], command["texts"])
        except Exception as error:  # noqa: BLE001 - it is the result
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


main()
