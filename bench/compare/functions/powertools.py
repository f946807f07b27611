"""Powertools' resolver for HTTP APIs, in front of boto3."""
import hmac, os

import boto3
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

app, dynamodb = APIGatewayHttpResolver(), boto3.client("dynamodb")


@app.post("/telegram")
def telegram():
    token = app.current_event.headers.get("x-telegram-bot-api-secret-token", "")
    if not hmac.compare_digest(token, os.environ["TELEGRAM_WEBHOOK_SECRET_TOKEN"]):
        return Response(status_code=401)
    message = app.current_event.json_body["message"]
    item = {"pk": f"telegram:{message['chat']['id']}", "sk": str(message["message_id"]), "text": message["text"]}
    try:
        dynamodb.put_item(TableName="bare", Item={name: {"S": value} for name, value in item.items()}, ConditionExpression="attribute_not_exists(pk)")
    except dynamodb.exceptions.ConditionalCheckFailedException:
        pass
    return Response(status_code=200)


def handler(event, context):
    return app.resolve(event, context)
