//! Models against an emulator of a chat completions endpoint: what is sent, and what is made of the answers.
#![allow(clippy::unwrap_used, reason = "tests and their support: a panic is a failure that names its line")]

#[path = "../../tests/support/model_api.rs"]
mod model_api;

use annals_shared::clock::Clock;
use annals_shared::message::{Part, Role, UiMessage};
use annals_shared::model::{
    Answer, Finish, Model, ModelChoice, ModelError, ModelSettings, NO_SINK, Prompt, Question, Step, Tool,
    Usage,
};
use annals_shared::tokens;
use model_api::{API_KEY, ModelApi, texts_of};
use serde_json::{Value, json};

fn model(api: &ModelApi, name: &str) -> Model {
    let settings = ModelSettings {
        base_url: Some(api.base_url()),
        api_key: Some(API_KEY.into()),
        ..ModelSettings::new(ModelChoice::OpenAi(name.to_owned()))
    };
    Model::new(&settings, &Clock::system(), None).unwrap()
}

fn question<'a>(messages: &'a [UiMessage], tools: &'a [Tool], steps: &'a [Step]) -> Question<'a> {
    Question { system: Some("Be kind."), messages, unanswered: 1, tools, steps, ..Question::default() }
}

fn user(text: &str) -> UiMessage {
    UiMessage::text("1", Role::User, text)
}

fn search() -> Tool {
    Tool {
        name: "search".into(),
        description: "Finds what was said.".into(),
        input_schema: json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}),
    }
}

fn add() -> Tool {
    Tool { name: "add".into(), description: "Adds.".into(), input_schema: json!({"type": "object"}) }
}

fn step_of(answer: Answer, outputs: &[Value]) -> Step {
    Step::new(answer, outputs.iter().cloned())
}

#[tokio::test]
async fn calls_go_back_with_their_results() {
    let api = ModelApi::start().await;
    let model = model(&api, "test");
    api.answer_tools(&[("search", json!({"query": "山"})), ("add", json!({}))]);
    api.answer_tools(&[("search", json!({"query": "river"}))]);
    api.answer_with("Found both.");
    let (messages, tools) = ([user("look it up")], [search(), add()]);

    let first = model.answer(question(&messages, &tools, &[]), NO_SINK).await.unwrap();
    assert_eq!((first.finish, first.text.as_str()), (Finish::ToolCalls, ""));
    assert_eq!(first.calls[0].input, json!({"query": "山"}));
    let mut steps = vec![step_of(first, &[json!("a hill"), json!({"sum": 3})])];
    // As Kimi and DeepSeek give it, and want it back.
    steps[0].reasoning = Some("A hill, or a river?".into());
    let second = model.answer(question(&messages, &tools, &steps), NO_SINK).await.unwrap();
    assert_eq!(second.calls.len(), 1);
    steps.push(step_of(second, &[json!({"error": "no such place"})]));
    let last = model.answer(question(&messages, &tools, &steps), NO_SINK).await.unwrap();

    assert_eq!((last.text.as_str(), last.finish), ("Found both.", Finish::Stop));
    assert!(last.calls.is_empty());
    assert_eq!(api.refusals(), Vec::<String>::new());
    let sent = &api.requests()[2]["messages"];
    let roles: Vec<&str> = sent.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]);
    assert_eq!(sent[2]["tool_calls"][0]["function"]["arguments"], r#"{"query":"山"}"#);
    assert_eq!(sent[2]["reasoning_content"], "A hill, or a river?");
    for (call, result, content) in [
        (&sent[2]["tool_calls"][0], &sent[3], "a hill"),
        (&sent[2]["tool_calls"][1], &sent[4], r#"{"sum":3}"#),
        (&sent[5]["tool_calls"][0], &sent[6], r#"{"error":"no such place"}"#),
    ] {
        assert_eq!(call["id"], result["tool_call_id"]);
        assert_eq!(result["content"], content);
    }
    let offered = &api.requests()[0]["tools"];
    assert_eq!(offered[0]["function"]["name"], "search");
    assert_eq!(offered[0]["function"]["parameters"], search().input_schema);
}

#[tokio::test]
async fn without_tools_none_are_mentioned() {
    let api = ModelApi::start().await;
    let answer = model(&api, "test").answer(question(&[user("hello")], &[], &[]), NO_SINK).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("You said: hello", Finish::Stop));
    let request = &api.requests()[0];
    for absent in ["tools", "tool_choice", "max_tokens", "max_completion_tokens", "reasoning_effort"] {
        assert!(request.get(absent).is_none(), "{absent} in {request}");
    }
}

#[tokio::test]
async fn a_completion_has_its_own_instructions_and_a_limit() {
    let api = ModelApi::start().await;
    api.answer_by(|body| {
        texts_of(body, "system").concat().contains("Summarise").then(|| "Ada moves to Lyon. ".repeat(20))
    });
    let prompt =
        Prompt { instructions: "Summarise.".into(), text: "Ada: I move to Lyon.".into(), max_tokens: 10 };
    for (name, limit) in [("test", "max_tokens"), ("gpt-5-mini", "max_completion_tokens")] {
        let answer = model(&api, name).complete(&prompt).await.unwrap();
        assert_eq!(answer.finish, Finish::Length);
        assert_eq!(answer.text.len(), 40);
        let request = api.requests().pop().unwrap();
        assert_eq!(request[limit], 10);
        assert_eq!(texts_of(&request, "system"), ["Summarise."]);
        assert_eq!(texts_of(&request, "user"), ["Ada: I move to Lyon."]);
        assert!(request.get("tools").is_none());
    }
    assert_eq!(api.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_held_back_says_so() {
    let api = ModelApi::start().await;
    let model = model(&api, "test");
    api.finish_with("content_filter");
    let prompt = Prompt { instructions: "Summarise.".into(), text: "…".into(), max_tokens: 100 };
    assert_eq!(model.complete(&prompt).await.unwrap().finish, Finish::ContentFilter);
    api.answer_with("  ");
    assert_eq!(model.complete(&prompt).await, Err(ModelError::Empty));
    assert_eq!(model.answer(question(&[user("hello")], &[], &[]), NO_SINK).await, Err(ModelError::Empty));
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_from_a_bad_one() {
    let api = ModelApi::start().await;
    let model = model(&api, "test");
    api.limit_context(100);
    let long = [user(&"河".repeat(200))];
    assert_eq!(model.answer(question(&long, &[], &[]), NO_SINK).await, Err(ModelError::ContextTooLong));
    assert!(model.answer(question(&[user("短")], &[], &[]), NO_SINK).await.is_ok());
    assert_eq!(api.too_long(), 1);
    api.fail(1, 400);
    let refused = model.answer(question(&[user("短")], &[], &[]), NO_SINK).await;
    assert_eq!(refused, Err(ModelError::Refused { status: 400 }));
    api.fail(1, 429);
    let Err(busy) = model.answer(question(&[user("短")], &[], &[]), NO_SINK).await else { panic!("busy") };
    assert_eq!(busy.retry_after().map(|pause| pause.as_secs()), Some(1));
}

#[tokio::test]
async fn usage_says_what_was_estimated_for_that_request() {
    let api = ModelApi::start().await;
    let model = model(&api, "test");
    api.count_tokens(2.0);
    let (messages, tools) = ([user(&"河".repeat(500))], [search()]);
    let question = question(&messages, &tools, &[]);
    let Usage { input_tokens, estimated_input_tokens, .. } =
        model.answer(question, NO_SINK).await.unwrap().usage.unwrap();
    assert_eq!(estimated_input_tokens, question.tokens());
    assert!(question.tokens() > tokens::of_request(question.system, question.messages));
    let correction = tokens::correction(input_tokens, estimated_input_tokens);
    assert!((1.8..=2.0).contains(&correction), "{correction}");
    let shown = serde_json::to_value(Usage {
        input_tokens: 3,
        output_tokens: 2,
        cached_input_tokens: None,
        estimated_input_tokens: 1,
    });
    assert_eq!(shown.unwrap(), json!({"inputTokens": 3, "outputTokens": 2, "estimatedInputTokens": 1}));
}

#[tokio::test]
async fn names_that_end_like_an_effort_arrive_whole() {
    let api = ModelApi::start().await;
    for name in ["qwen-max", "deepseek-r1-zero", "mistral-medium", "test"] {
        model(&api, name).answer(question(&[user("hello")], &[], &[]), NO_SINK).await.unwrap();
        let request = api.requests().pop().unwrap();
        assert_eq!(request["model"], name);
        assert!(request.get("reasoning_effort").is_none());
    }
}

#[tokio::test]
async fn a_summary_says_what_it_is_and_earlier_tools_are_readable() {
    let api = ModelApi::start().await;
    let mut summary = UiMessage::text("s", Role::Assistant, "Ada moves to Lyon.");
    summary.metadata.insert("kind".into(), "summary".into());
    let part = json!({
        "type": "tool-search", "toolCallId": "c", "state": "output-available", "input": {}, "output": ["a hill"],
    });
    let earlier = UiMessage::new("2", Role::Assistant, vec![Part::new(part).unwrap(), Part::text("A hill.")]);
    let messages = [summary, earlier, user("and now?")];
    model(&api, "test").answer(question(&messages, &[], &[]), NO_SINK).await.unwrap();
    let request = &api.requests()[0];
    // Where no tools are offered, in words.
    assert_eq!(texts_of(request, "assistant"), ["<tool_call name=\"search\">{}</tool_call>", "A hill."]);
    let told = "Summary of the conversation so far:\n<summary>\nAda moves to Lyon.\n</summary>\n";
    assert_eq!(request["messages"][1]["content"], told);
    assert_eq!(texts_of(request, "user"), ["<tool_result>[\"a hill\"]</tool_result>", "and now?"]);
}

#[tokio::test]
async fn echo_knows_what_it_is() {
    let echo = Model::new(&ModelSettings::new(ModelChoice::Echo), &Clock::system(), None).unwrap();
    assert!(echo.is_echo());
    assert_eq!(echo.answer(question(&[user("a"), user("b")], &[], &[]), NO_SINK).await.unwrap().text, "b");
    let prompt = Prompt { instructions: "Summarise.".into(), text: "said".into(), max_tokens: 10 };
    assert_eq!(echo.complete(&prompt).await.unwrap().text, "said");
    let api = ModelApi::start().await;
    assert!(!model(&api, "test").is_echo());
}
