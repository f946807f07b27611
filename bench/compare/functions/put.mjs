// Puts a message once, as the three libraries' handlers do.
import { DynamoDBClient, PutItemCommand } from "@aws-sdk/client-dynamodb";

const client = new DynamoDBClient();

export const put = async (chat, id, text) => {
  const Item = { pk: { S: chat }, sk: { S: id }, text: { S: text } };
  try {
    await client.send(new PutItemCommand({ TableName: "bare", Item, ConditionExpression: "attribute_not_exists(pk)" }));
  } catch (error) {
    if (error.name !== "ConditionalCheckFailedException") throw error;
  }
};
