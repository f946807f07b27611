//! The providers against emulators of their APIs: the same question to each gives the same answer.
#![allow(clippy::unwrap_used, reason = "tests and their support: a panic is a failure that names its line")]

use std::sync::Mutex;
use std::time::Duration;

use annals_core::media::Image;
use annals_core::message::{Role, UiMessage};
use annals_core::prompt::Prompt;
use annals_core::sort_key::Timestamp;
use annals_core::testing::set;
use annals_core::tokens;
use annals_io::clock::Clock;
use annals_model::{
    Answer, Delta, Finish, ImageAt, Model, ModelChoice, ModelError, ModelSettings, NO_SINK, Question, Step,
    Tool, Usage,
};
use annals_test_support::model_api::{
    API_KEY, AWS_KEY_ID, AWS_REGION, AWS_SECRET, Mishap, ModelApi, Numbering, images_of, texts_of,
};
use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use serde_json::{Value, json};

/// In seconds: until something of an answer comes, and between two pieces of it.
const FIRST: u64 = 90;
const BETWEEN: u64 = 40;

const OPENAI: &str = "openai:test";
const ANTHROPIC: &str = "anthropic:claude-sonnet-4-5";
const BEDROCK: &str = "bedrock:eu.anthropic.claude-sonnet-4-5-20250929-v1:0";

#[test]
fn each_provider_is_asked_the_same_questions() {
    let forms = ModelChoice::forms();
    let names: Vec<&str> = forms.split([',', ' ']).filter_map(|form| form.strip_suffix(":<model>")).collect();
    assert_eq!(
        ModelApi::models().into_iter().map(provider_of).collect::<Vec<_>>(),
        names,
        "an emulator is missing"
    );
}

fn provider_of(model: &str) -> &str {
    model.split_once(':').unwrap().0
}

/// An API, and one provider's model of it.
struct Stage {
    name: String,
    api: ModelApi,
    clock: Clock,
    model: Model,
}

fn aws(secret: &str) -> SdkConfig {
    let credentials = Credentials::new(AWS_KEY_ID, secret, None, None, "test");
    SdkConfig::builder()
        .region(Region::new(AWS_REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

fn settings(api: &ModelApi, model: &str) -> ModelSettings {
    let base_url = Some(api.url_of(provider_of(model)));
    let mut settings = ModelSettings { base_url, ..ModelSettings::new(model.parse().unwrap()) };
    if !settings.needs_aws() {
        settings.api_key = Some(API_KEY.into());
    }
    settings
}

async fn stage(model: &str) -> Stage {
    stage_with(model, |_| {}).await
}

async fn stage_with(name: &str, change: impl Fn(&mut ModelSettings)) -> Stage {
    let api = ModelApi::start().await;
    let clock = Clock::manual(Timestamp::from_secs(1_763_765_920));
    let mut settings = settings(&api, name);
    change(&mut settings);
    let model = Model::new(&settings, &clock, Some(&aws(AWS_SECRET))).unwrap();
    Stage { name: name.into(), api, clock, model }
}

impl Stage {
    async fn ask(&self, messages: &[UiMessage]) -> Result<Answer, ModelError> {
        self.model.answer(question(messages), NO_SINK).await
    }

    fn well_formed(&self) {
        assert_eq!(self.api.refusals(), [""; 0], "{}", self.name);
    }
}

fn question(messages: &[UiMessage]) -> Question<'_> {
    Question { system: Some("Be kind."), messages, unanswered: 1, ..Question::default() }
}

fn said(role: Role, text: &str) -> UiMessage {
    UiMessage::text("1", role, text)
}

fn user(text: &str) -> UiMessage {
    said(Role::User, text)
}

fn tool(name: &str) -> Tool {
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    Tool { name: name.into(), description: "Finds what was said.".into(), input_schema: schema }
}

/// The text that a sink received.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn hear(&self, delta: Delta<'_>) {
        self.0.lock().unwrap().push(match delta {
            Delta::Text(text) => text.to_owned(),
            Delta::Reasoning(text) => format!("({text})"),
            Delta::Void => "VOID".into(),
        });
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn messages_alternate_after_the_prompt_and_the_answer_is_streamed() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        let mut summary = said(Role::Assistant, "Ada moves to Lyon.");
        set(&mut summary.metadata, "kind", "summary");
        let messages = [summary, said(Role::Assistant, "When?"), user("soon"), user("or later")];
        let heard = Heard::default();
        stage.api.think("Later, then.");
        let asked = Question { notes: Some("Likes tea."), ..question(&messages) };
        let answer = stage.model.answer(asked, &|delta| heard.hear(delta)).await.unwrap();
        stage.well_formed();
        assert_eq!((answer.text.as_str(), answer.finish), ("You said: soon\nor later", Finish::Stop));
        assert_eq!(heard.all(), ["(Later, )", "(then.)", "You ", "said: ", "soon\nor ", "later"], "{model}");
        assert_eq!(answer.reasoning.unwrap().text, "Later, then.");
        let request = &stage.api.requests()[0];
        assert_eq!(texts_of(request, "system"), ["Be kind."]);
        let told = "Summary of the conversation so far:\n<summary>\nAda moves to Lyon.\n</summary>\n";
        let last = "soon\n<notes>\nLikes tea.\n</notes>\n\nor later";
        let content = |at: usize| request["messages"][at]["content"].as_str().unwrap();
        assert_eq!([content(1), content(2), content(3)], [told, "When?", last]);
    }
}

#[tokio::test]
async fn calls_go_back_with_their_results_and_the_thoughts_that_led_to_them() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.think("A hill, or a river?");
        stage.api.answer_tools(&[("find", json!({"query": "山 \"x\""})), ("add", json!({}))]);
        stage.api.answer_tools(&[("find", json!({"query": "river"}))]);
        stage.api.answer_with("Found both.");
        let (messages, tools) = ([user("look it up")], [tool("find"), tool("add")]);
        let asked = Question { tools: &tools, ..question(&messages) };
        let first = stage.model.answer(asked, NO_SINK).await.unwrap();
        assert_eq!((first.finish, first.text.as_str()), (Finish::ToolCalls, ""));
        let calls: Vec<(&str, &Value)> =
            first.calls.iter().map(|call| (call.name.as_str(), &call.input)).collect();
        assert_eq!(calls, [("find", &json!({"query": "山 \"x\""})), ("add", &json!({}))], "{model}");
        let mut steps = vec![Step::new(first, [json!("a hill"), json!(" ")])];
        let second = Question { steps: &steps, ..asked };
        let second = stage.model.answer(second, NO_SINK).await.unwrap();
        steps.push(Step::new(second, [json!({"error": "no such place"})]));
        let last = stage.model.answer(Question { steps: &steps, ..asked }, NO_SINK).await.unwrap();
        assert_eq!((last.text.as_str(), last.calls.len()), ("Found both.", 0));
        stage.well_formed();
        let request = stage.api.requests().pop().unwrap();
        assert_eq!(texts_of(&request, "tool"), ["a hill", "[nothing]", r#"{"error":"no such place"}"#]);
        let raw = stage.api.raw_requests().pop().unwrap().to_string();
        assert_eq!(raw.matches("A hill, or a river?").count(), 2, "{raw}");
    }
}

/// As Ollama gives whole calls, vLLM's parsers calls in pieces, and some of its versions an id for each piece.
#[tokio::test]
async fn calls_with_the_same_number_are_distinguished_by_their_ids() {
    let all = [
        Numbering::Each,
        Numbering::OneForAll,
        Numbering::OneForAllWhole,
        Numbering::OneForAllAndIdsForPieces,
    ];
    for numbering in all {
        let stage = stage(OPENAI).await;
        stage.api.edit(|stored| stored.numbering = numbering);
        let (hill, river) = (json!({"query": "山"}), json!({"query": "river \"x\""}));
        stage.api.answer_tools(&[("find", hill.clone()), ("find", river.clone()), ("add", json!({}))]);
        let (messages, tools) = ([user("look it up")], [tool("find"), tool("add")]);
        let asked = Question { tools: &tools, ..question(&messages) };
        let answer = stage.model.answer(asked, NO_SINK).await.unwrap();
        let calls: Vec<(&str, &Value)> =
            answer.calls.iter().map(|call| (call.name.as_str(), &call.input)).collect();
        assert_eq!(calls, [("find", &hill), ("find", &river), ("add", &json!({}))], "{numbering:?}");
        let steps = [Step::new(answer, [json!("a hill"), json!("a river"), json!(3)])];
        stage.model.answer(Question { steps: &steps, ..asked }, NO_SINK).await.unwrap();
        stage.well_formed();
        let request = stage.api.requests().pop().unwrap();
        assert_eq!(texts_of(&request, "tool"), ["a hill", "a river", "3"], "{numbering:?}");
    }
}

#[tokio::test]
async fn a_call_from_another_provider_and_its_thoughts_do_not_get_in_the_way() {
    let openai = stage(OPENAI).await;
    openai.api.think("Hm.");
    openai.api.answer_tools(&[("find", json!({}))]);
    let (messages, tools) = ([user("look it up")], [tool("find")]);
    let asked = Question { tools: &tools, ..question(&messages) };
    let mut first = openai.model.answer(asked, NO_SINK).await.unwrap();
    first.calls[0].id = "call/of:another".into();
    first.calls[0].input = json!("no object");
    let steps = [Step::new(first, [json!("a hill")])];
    for model in ModelApi::models().into_iter().filter(|model| *model != OPENAI) {
        let stage = stage(model).await;
        stage.model.answer(Question { steps: &steps, ..asked }, NO_SINK).await.unwrap();
        stage.well_formed();
        assert!(!stage.api.raw_requests()[0].to_string().contains("Hm."));
    }
}

/// A chat that has called in a turn, and in the next: what it sent is sent again, byte by byte.
#[tokio::test]
async fn calls_of_earlier_turns_are_sent_unchanged_or_as_text_if_no_tools_are_offered() {
    for model in ModelApi::models() {
        // OpenAI caches by itself, the others up to marks that move on.
        let stage = stage_with(model, |settings| settings.marks_cache = false).await;
        let tools = [tool("find")];
        stage.api.answer_tools(&[("find", json!({"query": "x"}))]);
        stage.api.answer_with("A hill.");
        let first = [user("look it up")];
        let asked = Question { tools: &tools, ..question(&first) };
        let called = stage.model.answer(asked, NO_SINK).await.unwrap();
        let part = json!({
            "type": "tool-find", "toolCallId": called.calls[0].id, "state": "output-available",
            "input": called.calls[0].input, "output": "a hill",
        });
        let waits = json!({
            "type": "tool-find", "toolCallId": called.calls[0].id, "state": "approval-requested",
            "input": {}, "approval": {"id": "5f2b81c09a3de417"},
        });
        let steps = [Step::new(called, [json!("a hill")])];
        let answer = stage.model.answer(Question { steps: &steps, ..asked }, NO_SINK).await.unwrap();
        let stored = |parts: Value| UiMessage {
            parts: serde_json::from_value(parts).unwrap(),
            ..said(Role::Assistant, "")
        };
        let start = json!({"type": "step-start"});
        let reply = stored(json!([start, part, start, {"type": "text", "text": answer.text}]));
        let later = [user("look it up"), reply, user("and y?"), stored(json!([waits])), user("well?")];
        stage.model.answer(Question { tools: &tools, ..question(&later) }, NO_SINK).await.unwrap();
        stage.well_formed();
        let sent = stage.api.raw_messages();
        assert_eq!(sent[2][..sent[1].len()], sent[1], "{model}");
        let results = texts_of(&stage.api.requests()[2], "tool");
        assert_eq!((results.len(), results[0].as_str()), (2, "a hill"));
        assert!(results[1].starts_with("not carried out: somebody has to allow this call"), "{results:?}");

        stage.model.answer(question(&later), NO_SINK).await.unwrap();
        stage.well_formed();
        let request = stage.api.requests().pop().unwrap();
        assert_eq!(texts_of(&request, "tool"), [""; 0], "{model}");
        let told = request["messages"].to_string();
        assert!(
            told.contains("<tool_call name=\\\"find\\\">")
                && told.contains("<tool_result>a hill</tool_result>"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn the_last_round_allows_no_calls_and_still_sends_the_results() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.answer_tools(&[("find", json!({"query": "x"}))]);
        stage.api.answer_tools(&[("find", json!({"query": "y"}))]);
        let (messages, tools) = ([user("look it up")], [tool("find")]);
        let asked = Question { tools: &tools, ..question(&messages) };
        let first = stage.model.answer(asked, NO_SINK).await.unwrap();
        let steps = [Step::new(first, [json!("a hill")])];
        let last = Question { steps: &steps, must_answer: true, ..asked };
        let answer = stage.model.answer(last, NO_SINK).await.unwrap();
        stage.well_formed();
        assert!(answer.calls.is_empty() && !answer.text.is_empty());
        let request = stage.api.requests().pop().unwrap();
        assert!(request["messages"].to_string().contains("a hill"), "{request}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error_and_nothing_of_it_stays() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.answer_with("one two three four five six seven eight");
        let (lost, ended) = ("the connection broke off", "the answer broke off");
        for wanted in [ModelError::Unreachable(lost), ModelError::Incomplete(ended)] {
            let breaks = wanted.to_string().contains("check its base URL");
            stage.api.mishap(1, if breaks { Mishap::Breaks } else { Mishap::Ends });
            let heard = Heard::default();
            let messages = [user("count")];
            let error =
                stage.model.answer(question(&messages), &|delta| heard.hear(delta)).await.unwrap_err();
            assert_eq!(error, wanted, "{model}");
            assert_eq!(heard.all().last().unwrap(), "VOID");
        }
        stage.api.mishap(1, Mishap::Fails);
        let error = stage.ask(&[user("count")]).await.unwrap_err();
        assert!(matches!(error, ModelError::Busy { .. }), "{model}: {error}");
        let answer = stage.ask(&[user("count")]).await.unwrap();
        assert_eq!(answer.text, "one two three four five six seven eight");
        stage.well_formed();
    }
}

/// Moves the clock on until what is awaited has come, and answers how many seconds that took.
async fn seconds_until<T>(clock: &Clock, what: impl Future<Output = T>) -> (T, u64) {
    let started = clock.now();
    tokio::pin!(what);
    loop {
        tokio::select! {
            biased;
            done = &mut what => return (done, clock.now().since(started).as_secs()),
            () = a_moment() => clock.advance(Duration::from_secs(1)),
        }
    }
}

/// Time of the world's, in which a loopback connection gets something done.
async fn a_moment() {
    let (_client, mut server) = tokio::io::duplex(8);
    let read = tokio::io::AsyncReadExt::read_u8(&mut server);
    let _ = tokio::time::timeout(Duration::from_millis(5), read).await;
}

#[tokio::test]
async fn a_dead_connection_is_noticed_before_and_after_the_first_piece() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.answer_with("one two three four five six");
        stage.api.hang();
        let messages = [user("count")];
        let (answer, seconds) = seconds_until(&stage.clock, stage.ask(&messages)).await;
        assert_eq!(answer.unwrap_err(), ModelError::Incomplete("no answer in time"));
        assert_eq!(seconds, FIRST, "{model}");
        stage.api.resume();
        stage.api.mishap(1, Mishap::Stalls);
        let (answer, seconds) = seconds_until(&stage.clock, stage.ask(&messages)).await;
        assert_eq!(answer.unwrap_err(), ModelError::Incomplete("the answer stopped"));
        // What came took moments.
        assert!((BETWEEN..BETWEEN + 10).contains(&seconds), "{model}: {seconds}");
        // A model may think after an event that says nothing.
        stage.api.mishap(1, Mishap::Opens);
        let (answer, seconds) = seconds_until(&stage.clock, stage.ask(&messages)).await;
        assert_eq!(answer.unwrap_err(), ModelError::Incomplete("the answer stopped"));
        assert!((FIRST..FIRST + 10).contains(&seconds), "{model}: {seconds}");
        assert!(stage.ask(&messages).await.is_ok());
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.edit(|stored| stored.never_streams = true);
        stage.api.think("Hm.");
        stage.api.answer_tools(&[("find", json!({"query": "山"}))]);
        let (messages, tools) = ([user("look it up")], [tool("find")]);
        let heard = Heard::default();
        let asked = Question { tools: &tools, ..question(&messages) };
        let first = stage.model.answer(asked, &|delta| heard.hear(delta)).await.unwrap();
        assert_eq!(heard.all(), ["(Hm.)"], "{model}");
        assert_eq!(first.calls[0].input, json!({"query": "山"}));
        let steps = [Step::new(first, [json!("a hill")])];
        let answer = stage.model.answer(Question { steps: &steps, ..asked }, NO_SINK).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.finish), ("You said: look it up", Finish::Stop));
        assert!(answer.usage.unwrap().input_tokens > 0);
        stage.well_formed();
    }
}

#[tokio::test]
async fn streaming_options_that_a_server_refuses_are_omitted_from_then_on() {
    for (model, has_usage) in [(OPENAI, false), (BEDROCK, true)] {
        let stage = stage(model).await;
        stage.api.edit(|stored| stored.refuses_option = true);
        for _ in 0..2 {
            let answer = stage.ask(&[user("hello")]).await.unwrap();
            assert_eq!(answer.text, "You said: hello");
            assert_eq!(answer.usage.is_some(), has_usage);
        }
        assert_eq!(stage.api.refusals().len(), 1, "it is asked for once");
    }
}

#[tokio::test]
async fn failures_are_classified() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.limit_context(100);
        let long = [user(&"河".repeat(200))];
        assert_eq!(stage.ask(&long).await.unwrap_err(), ModelError::ContextTooLong, "{model}");
        let retry_after = |status: u16| (status == 429).then_some(Duration::from_secs(1));
        for status in [429, 500, 503, 529] {
            stage.api.fail(1, status);
            let wanted = ModelError::Busy { status, retry_after: retry_after(status) };
            assert_eq!(stage.ask(&[user("短")]).await.unwrap_err(), wanted, "{model}");
        }
        for status in [400, 403, 404] {
            stage.api.fail(1, status);
            assert_eq!(stage.ask(&[user("短")]).await.unwrap_err(), ModelError::Refused { status });
        }
        for nothing in ["", " \n"] {
            stage.api.answer_with(nothing);
            assert_eq!(stage.ask(&[user("短")]).await.unwrap_err(), ModelError::Empty, "{model}");
        }
        stage.api.finish_with("length");
        assert_eq!(stage.ask(&[user("短")]).await.unwrap_err(), ModelError::Exhausted, "{model}");
        stage.well_formed();
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_so_is_a_wrong_signature() {
    for choice in ModelApi::models() {
        let api = ModelApi::start().await;
        let mut settings = settings(&api, choice);
        settings.api_key = settings.api_key.map(|_| "another".into());
        let model = Model::new(&settings, &Clock::system(), Some(&aws("another"))).unwrap();
        let messages = [user("hello")];
        let refused = model.answer(question(&messages), NO_SINK).await.unwrap_err();
        let status = if choice.starts_with("bedrock:") { 403 } else { 401 };
        assert_eq!(refused, ModelError::Refused { status }, "{choice}");
        settings.api_key = Some(API_KEY.into());
        let model = Model::new(&settings, &Clock::system(), None).unwrap();
        assert!(model.answer(question(&messages), NO_SINK).await.is_ok(), "{choice}: Bedrock has keys, too");
    }
    let bedrock = ModelSettings::new(BEDROCK.parse().unwrap());
    assert_eq!(Model::new(&bedrock, &Clock::system(), None).unwrap_err(), ModelError::NoAws);
}

/// `doctor` asks for the list of models.
#[test]
fn a_list_of_models_tells_a_wrong_key_as_an_answer_does() {
    let ModelChoice::Hosted(model) = "openai:m".parse().unwrap() else { panic!("a hosted model") };
    let wrong =
        json!([{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}]);
    assert_eq!(model.listed_models(400, &wrong.to_string()), (401, vec![]));
    assert_eq!(
        model.listed_models(400, &json!({"error": {"message": "no list"}}).to_string()),
        (400, vec![])
    );
    let list = json!({"data": [{"id": "m"}]});
    assert_eq!(model.listed_models(200, &list.to_string()), (200, vec!["m".into()]));
}

#[tokio::test]
async fn images_are_shown_as_each_provider_wants_them() {
    const BYTES: [u8; 4] = [0x89, b'P', b'N', b'G'];
    for model in ModelApi::models() {
        let stage = stage(model).await;
        let image = Image { media_type: "image/png".into(), bytes: BYTES.into() };
        let images = [ImageAt { message: 0, image }];
        let messages = [user("what is it?")];
        let asked = Question { images: &images, ..question(&messages) };
        let without = question(&messages).tokens();
        assert_eq!(asked.tokens(), without + 1600);
        assert_eq!(stage.model.answer(asked, NO_SINK).await.unwrap().text, "You said: what is it?");
        stage.well_formed();
        assert_eq!(images_of(&stage.api.requests()[0]), [BYTES], "{model}");
        let last = stage.api.raw_messages()[0].last().unwrap().clone();
        let wanted = match model {
            OPENAI => json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}),
            ANTHROPIC => {
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}})
            }
            BEDROCK => json!({"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}),
            _ => continue,
        };
        assert_eq!(last["content"][1], wanted);
    }
}

#[tokio::test]
async fn a_completion_has_its_own_instructions_and_a_limit_and_the_fallback_if_the_first_fails() {
    let prompt =
        Prompt { instructions: "Summarise.".into(), text: "Ada: I move to Lyon.".into(), max_tokens: 10 };
    for model in ModelApi::models() {
        let first = stage(OPENAI).await;
        let stage = stage(model).await;
        stage.api.answer_with("Ada moves to Lyon. ".repeat(20));
        let answer = stage.model.complete(&prompt).await.unwrap();
        assert_eq!((answer.finish, answer.text.len()), (Finish::Length, 40), "{model}");
        let request = stage.api.requests().pop().unwrap();
        assert_eq!(request["max_tokens"], 10);
        assert_eq!(texts_of(&request, "system"), ["Summarise."]);
        assert_eq!(texts_of(&request, "user"), ["Ada: I move to Lyon."]);
        let raw = stage.api.raw_requests().pop().unwrap().to_string();
        assert!(!raw.contains("cache") && !raw.contains("tool"), "{raw}");
        stage.well_formed();

        let mut with_fallback = settings(&first.api, OPENAI);
        with_fallback.fallback = Some(Box::new(settings(&stage.api, model)));
        let model = Model::new(&with_fallback, &stage.clock, Some(&aws(AWS_SECRET))).unwrap();
        first.api.fail(1, 401);
        assert_eq!(model.complete(&prompt).await.unwrap().text.len(), 40);
        first.api.limit_context(1);
        assert_eq!(model.complete(&prompt).await.unwrap_err(), ModelError::ContextTooLong);
        assert_eq!((first.api.requests().len(), stage.api.requests().len()), (2, 2));
    }
}

#[tokio::test]
async fn a_completion_without_text_is_asked_for_without_a_limit_from_then_on() {
    let prompt = Prompt { instructions: "Summarise.".into(), text: "…".into(), max_tokens: 2_000 };
    for model in ModelApi::models() {
        let stage = stage_with(model, |settings| settings.marks_cache = true).await;
        stage.api.answer_by(|body| {
            let is_too_little = body["max_tokens"].as_u64().is_some_and(|limit| limit < 4_000);
            Some(if is_too_little { String::new() } else { "Ada moves to Lyon.".into() })
        });
        stage.api.finish_with("length");
        // Also if the request without a limit fails.
        stage.api.fail_behind(1, 1, 500);
        stage.model.complete(&prompt).await.unwrap_err();
        for requests in [3, 4] {
            assert_eq!(stage.model.complete(&prompt).await.unwrap().text, "Ada moves to Lyon.");
            assert_eq!(stage.api.requests().len(), requests, "{model}");
        }
        assert!(!stage.api.raw_requests()[2].to_string().contains("cache"), "{model}");
        stage.well_formed();
    }
}

/// Each turn sends what the one before sent, and a little more; what memory says is another thing in each.
#[tokio::test]
async fn a_turn_finds_in_the_providers_cache_what_the_one_before_sent() {
    for model in ModelApi::models() {
        let stage = stage_with(model, |settings| settings.marks_cache = true).await;
        let tools = [tool("find")];
        let mut messages = vec![user(&"Some words to begin with. ".repeat(8))];
        for turn in 0..5 {
            let notes = format!("Note {turn}: {}", "something known ".repeat(turn + 1));
            let asked = Question { tools: &tools, notes: Some(&notes), ..question(&messages) };
            let answer = stage.model.answer(asked, NO_SINK).await.unwrap();
            let usage = answer.usage.unwrap();
            let cached = u64::from(usage.cached_input_tokens.unwrap());
            assert_eq!(cached, stage.api.cached_tokens()[turn], "{model}");
            // The part that is found is followed by the last message and reply, the notes and the question.
            let new = u64::from(usage.input_tokens) - cached;
            assert!(turn < 2 || (cached > 100 && new < 150), "{model} {turn}: {cached} + {new}");
            messages.push(said(Role::Assistant, &format!("Reply {turn}.")));
            messages.push(user(&format!("And what of {turn}?")));
        }
        stage.well_formed();
    }
}

#[tokio::test]
async fn cache_marks_are_sent_only_to_providers_that_support_them() {
    let (messages, tools) = ([user("a"), said(Role::Assistant, "b"), user("c")], [tool("find")]);
    let asked = Question { tools: &tools, ..question(&messages) };
    let anthropic = stage(ANTHROPIC).await;
    anthropic.model.answer(asked, NO_SINK).await.unwrap();
    let raw = &anthropic.api.raw_requests()[0];
    let mark = json!({"type": "ephemeral"});
    for place in [&raw["tools"][0], &raw["system"][0], &raw["messages"][1]["content"][0]] {
        assert_eq!(place["cache_control"], mark);
    }
    assert_eq!(raw.to_string().matches("cache_control").count(), 3);
    assert_eq!(raw["max_tokens"], 16_384);
    let old = stage_with(ANTHROPIC, |settings| {
        settings.choice = "anthropic:claude-3-haiku-20240307".parse().unwrap();
        settings.marks_cache = false;
    })
    .await;
    old.ask(&messages).await.unwrap();
    let raw = &old.api.raw_requests()[0];
    assert_eq!(raw["max_tokens"], 4096);
    assert!(!raw.to_string().contains("cache_control"));

    let bedrock = stage(BEDROCK).await;
    bedrock.model.answer(asked, NO_SINK).await.unwrap();
    assert!(!bedrock.api.raw_requests()[0].to_string().contains("cachePoint"));
    let (_, claude) = BEDROCK.split_once(':').unwrap();
    assert_eq!(
        bedrock.api.paths()[0],
        format!("/bedrock/model/{}/converse-stream", claude.replace(':', "%3A"))
    );
    let marked = stage_with(BEDROCK, |settings| settings.marks_cache = true).await;
    marked.model.answer(asked, NO_SINK).await.unwrap();
    let raw = &marked.api.raw_requests()[0];
    let point = json!({"cachePoint": {"type": "default"}});
    for place in [&raw["toolConfig"]["tools"][1], &raw["system"][1], &raw["messages"][1]["content"][1]] {
        assert_eq!(*place, point);
    }
}

async fn openai(name: &str) -> Stage {
    stage_with(OPENAI, |settings| settings.choice = format!("openai:{name}").parse().unwrap()).await
}

#[tokio::test]
async fn openai_requests_contain_only_fields_that_every_compatible_server_knows() {
    for name in ["qwen-max", "deepseek-r1-zero", "mistral-medium", "test"] {
        let stage = openai(name).await;
        let answer = stage.ask(&[user("hello")]).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.finish), ("You said: hello", Finish::Stop));
        let request = &stage.api.requests()[0];
        assert_eq!(request["model"], name, "also if it ends like an effort");
        for absent in ["tools", "tool_choice", "max_tokens", "max_completion_tokens", "reasoning_effort"] {
            assert!(request.get(absent).is_none(), "{absent} in {request}");
        }
    }
    let stage = openai("gpt-5-mini").await;
    let prompt = Prompt { instructions: "Summarise.".into(), text: "…".into(), max_tokens: 10 };
    stage.model.complete(&prompt).await.unwrap();
    assert_eq!(stage.api.requests()[0]["max_completion_tokens"], 10);
}

#[tokio::test]
async fn a_filtered_answer_says_that_it_was_filtered() {
    for model in ModelApi::models() {
        let stage = stage(model).await;
        stage.api.finish_with("content_filter");
        assert_eq!(stage.ask(&[user("短")]).await.unwrap().finish, Finish::ContentFilter, "a part of it");
        let prompt = Prompt { instructions: "Summarise.".into(), text: "…".into(), max_tokens: 100 };
        assert_eq!(stage.model.complete(&prompt).await.unwrap_err(), ModelError::Filtered);
        stage.api.answer_with("");
        assert_eq!(stage.ask(&[user("短")]).await.unwrap_err(), ModelError::Filtered);
    }
}

#[tokio::test]
async fn usage_says_what_was_estimated_for_that_request() {
    let stage = openai("test").await;
    stage.api.edit(|stored| stored.usage_factor = Some(2.0));
    let (messages, tools) = ([user(&"河".repeat(500))], [tool("find")]);
    let question = Question { tools: &tools, ..question(&messages) };
    let answer = stage.model.answer(question, NO_SINK).await.unwrap();
    let Usage { input_tokens, estimated_input_tokens, .. } = answer.usage.unwrap();
    assert_eq!(estimated_input_tokens, question.tokens());
    assert!(question.tokens() > tokens::of_request(question.system, question.messages));
    let correction = tokens::correction(input_tokens, estimated_input_tokens);
    assert!((1.8..=2.0).contains(&correction), "{correction}");
    let usage =
        Usage { input_tokens: 3, output_tokens: 2, cached_input_tokens: None, estimated_input_tokens: 1 };
    let json = serde_json::to_value(usage).unwrap();
    assert_eq!(json, json!({"inputTokens": 3, "outputTokens": 2, "estimatedInputTokens": 1}));
}

#[tokio::test]
async fn echo_answers_with_the_last_message() {
    let echo = Model::new(&ModelSettings::new(ModelChoice::Echo), &Clock::system(), None).unwrap();
    assert!(echo.is_echo() && !openai("test").await.model.is_echo());
    assert_eq!(echo.answer(question(&[user("a"), user("b")]), NO_SINK).await.unwrap().text, "b");
    let prompt = Prompt { instructions: "Summarise.".into(), text: "said".into(), max_tokens: 10 };
    assert_eq!(echo.complete(&prompt).await.unwrap().text, "said");
}
