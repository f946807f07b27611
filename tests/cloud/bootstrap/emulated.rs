//! A `bootstrap` under the runtime interface emulator: [`Emulated`].

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::stack::{Stack, root, set, soon};

/// A running function; it ends with this value.
pub(crate) struct Emulated {
    process: Child,
    url: String,
    log: PathBuf,
    http: reqwest::Client,
}

impl Emulated {
    /// Starts `function`, with the variables that it was deployed with and these instead or as well. Turns go to the queue
    /// at `queue`.
    pub(crate) async fn start(
        stack: &Stack,
        function: &str,
        queue: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let (address, runtime_api) = (free_address(), free_address());
        let log = PathBuf::from(set("ANNALS_CLOUD_BUILD"))
            .join(format!("{function}-{}.log", address.replace(':', "-")));
        let output = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(set("ANNALS_CLOUD_RIE"));
        command.args([
            "--runtime-interface-emulator-address",
            &address,
            "--runtime-api-address",
            &runtime_api,
        ]);
        command.arg(PathBuf::from(set("ANNALS_CLOUD_BUILD")).join(function).join("bootstrap"));
        set_environment(&mut command, stack, function, queue);
        command.env("AWS_LAMBDA_FUNCTION_TIMEOUT", "60");
        command.envs(variables.iter().copied());
        let errors = output.try_clone().unwrap();
        // A group of its own, so that the function ends with its emulator.
        let process =
            command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(errors).spawn().unwrap();
        let url = format!("http://{address}");
        let emulated = Self { process, url, log, http: stack.http.clone() };
        soon("the emulator listens", async || emulated.http.get(&emulated.url).send().await.is_ok()).await;
        emulated
    }

    /// Returns the function's raw answer to `event`.
    pub(crate) async fn invoke_raw(&self, event: &Value) -> Vec<u8> {
        let url = format!("{}/2015-03-31/functions/function/invocations", self.url);
        let answer = self.http.post(url).json(event).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", self.log());
        answer.bytes().await.unwrap().to_vec()
    }

    /// Returns the function's answer to `event`.
    pub(crate) async fn invoke(&self, event: &Value) -> Value {
        let answer = self.invoke_raw(event).await;
        let read = serde_json::from_slice(&answer);
        read.unwrap_or_else(|error| panic!("{error}: {}: {}", String::from_utf8_lossy(&answer), self.log()))
    }

    /// Returns the output of the function and its emulator.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let group = format!("-{}", self.process.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).status());
        drop(self.process.wait());
    }
}

/// Gives `command` the variables that `function` was deployed with, access to the stack, and this queue.
pub(crate) fn set_environment(command: &mut Command, stack: &Stack, function: &str, queue: &str) {
    command.env_clear();
    for name in
        ["AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "SSL_CERT_FILE"]
    {
        command.env(name, set(name));
    }
    command.envs(&stack.environments()[function]).env("ANNALS_QUEUE_URL", queue);
    command.env("AWS_LAMBDA_FUNCTION_NAME", function);
}

fn free_address() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string()
}

/// An event of infra/events/.
pub(crate) fn event(name: &str) -> Value {
    let file = root().join("infra/events").join(format!("{name}.json"));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// A streamed answer: what comes before the body, and the body.
pub(crate) fn streamed(answer: &[u8]) -> (Value, String) {
    let answer = String::from_utf8(answer.to_vec()).unwrap();
    let (prelude, body) = answer.split_once("\0\0\0\0\0\0\0\0").unwrap_or_else(|| panic!("{answer:?}"));
    (serde_json::from_str(prelude).unwrap(), body.to_owned())
}

/// The event of a function URL for this request.
pub(crate) fn request(method: &str, path: &str, key: &str, body: Option<&Value>) -> Value {
    let mut event = event("telegram-message");
    event["routeKey"] = json!("$default");
    event["rawPath"] = json!(path);
    event["headers"] = json!({"authorization": format!("Bearer {key}"), "content-type": "application/json"});
    event["requestContext"]["http"]["method"] = json!(method);
    event["requestContext"]["http"]["path"] = json!(path);
    event["requestContext"]["routeKey"] = json!("$default");
    event["requestContext"]["accountId"] = json!("anonymous");
    match body {
        Some(body) => event["body"] = json!(body.to_string()),
        None => drop(event.as_object_mut().unwrap().remove("body")),
    }
    event
}

/// A FIFO queue of the test's own that nobody reads, at its URL.
pub(crate) async fn queue(stack: &Stack, name: &str) -> String {
    let fifo = aws_sdk_sqs::types::QueueAttributeName::FifoQueue;
    let made =
        stack.sqs.create_queue().queue_name(format!("{name}.fifo")).attributes(fifo, "true").send().await;
    made.unwrap().queue_url().unwrap().to_owned()
}
