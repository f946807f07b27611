//! The HTTP API through a function URL, which streams.

use serde_json::json;

use crate::bootstrap::emulated::{Emulated, queue, request, streamed};
use crate::stack::beside;

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn http_streams_through_a_function_url() {
    beside(async |stack| {
        let queue = queue(stack, "http-streaming-alone").await;
        let function = Emulated::start(stack, "Http", &queue, &[("HTTP_RESPONSES", "streaming")]).await;
        let path = "/v1/chats/alone-streamed/messages";
        let message = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
        for (event, status, part) in [
            (request("GET", path, "wrong", None), 401, "\"status\":401"),
            (request("POST", path, "app-secret", Some(&message)), 202, "\"messageId\":\"m1\""),
            (request("GET", path, "app-secret", None), 200, "\"text\":\"hello\""),
        ] {
            let (prelude, body) = streamed(&function.invoke_raw(&event).await);
            assert_eq!(prelude["statusCode"], status, "{prelude} {body}");
            assert!(body.contains(part), "{prelude} {body}");
        }
    });
}
