//! A minimal function for comparison: one put to DynamoDB per request of an HTTP API, without Annals, written like the
//! examples of the SDK and the runtime. See `bench/README.md`.

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lambda_http::{Body, Error, Request, Response, run, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let client = Client::new(&config);
    run(service_fn(|event| put(&client, event))).await
}

/// Puts the request's body as the one item `minimal` of the table `annals`.
async fn put(client: &Client, event: Request) -> Result<Response<Body>, Error> {
    let Body::Text(text) = event.into_body() else { return Err("the body is no text".into()) };
    client
        .put_item()
        .table_name("annals")
        .item("pk", AttributeValue::S("minimal".into()))
        .item("sk", AttributeValue::S("minimal".into()))
        .item("text", AttributeValue::S(text))
        .send()
        .await?;
    Ok(Response::new(Body::Empty))
}
