//! A model behind an API: requests and responses, with their time limits, for every [`Provider`].
//!
//! Requests ask for streaming, so that a dead connection differs from a long thought, and an answer can be shown while it
//! comes. An answer that breaks off is an error, and nothing of it is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use annals_core::prompt::Prompt;
use annals_core::trace::Step;
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use annals_io::metrics::{Metric, Metrics};
use annals_io::recorder::{Recorder, Timing};
use annals_io::tls;
use aws_config::SdkConfig;
use bytes::Bytes;
use futures::FutureExt;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::answer::{Answer, Finish, NO_SINK, PartialAnswer, Sink};
use super::choice::{HostedModel, ModelSettings, PROVIDERS};
use super::conversation::Conversation;
use super::error::ModelError;
use super::failure;
use super::frames::{Frame, Frames};
use super::provider::{Endpoint, Provider};
use super::question::Question;
use super::signing::Signer;

/// Maximum time for one request.
const TOTAL: Duration = Duration::from_mins(2);
/// Maximum silence until something is said. Models that reason are silent for a minute and more, also after a first event.
const FIRST: Duration = Duration::from_secs(90);
/// Maximum pause after the first words. Providers send something at least every few seconds, if only a comment.
const BETWEEN: Duration = Duration::from_secs(40);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a silent peer is checked: it may be gone, or only slow.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A model behind an API. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Hosted {
    connection: Connection,
    clock: Clock,
    model: HostedModel,
    /// Without a slash at its end.
    base_url: String,
    api_key: Option<SecretString>,
    signer: Option<Signer>,
    marks_cache: bool,
    /// `MODEL_VISION`
    sees: Option<bool>,
    known: Arc<Known>,
    pub(super) metrics: Metrics,
    /// That of the run that the model is asked for.
    pub(super) recorder: Recorder,
}

/// The limits of an endpoint as far as the process knows them.
#[derive(Debug, Default)]
struct Known {
    /// True if it refuses the optional part of a request.
    refuses_option: AtomicBool,
    /// True if its model accepts no images.
    is_blind: AtomicBool,
    /// True if a limit of tokens left its model no text.
    thinks: AtomicBool,
}

impl Hosted {
    /// Returns `model` with its `settings`.
    pub(super) fn new(
        model: &HostedModel,
        settings: &ModelSettings,
        clock: &Clock,
        aws: Option<&SdkConfig>,
    ) -> Result<Self, ModelError> {
        let is_signed = model.may_use_aws() && settings.api_key.is_none();
        let signer = match aws {
            Some(aws) if is_signed => Some(Signer::new(aws, clock.clone()).ok_or(ModelError::NoAws)?),
            None if is_signed => return Err(ModelError::NoAws),
            _ => None,
        };
        let region = aws.and_then(|aws| aws.region()).map(AsRef::as_ref);
        let base_url = settings.base_url.clone().or_else(|| model.provider.base_url(region));
        let base_url = base_url.ok_or(ModelError::NoAws)?;
        Ok(Self {
            connection: Connection::new(connect),
            clock: clock.clone(),
            model: model.clone(),
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key: settings.api_key.clone(),
            signer,
            marks_cache: settings.marks_cache,
            sees: settings.sees,
            known: Arc::default(),
            metrics: Metrics::default(),
            recorder: Recorder::default(),
        })
    }

    pub(super) fn name(&self) -> String {
        self.model.to_string()
    }

    pub(super) fn sees(&self) -> bool {
        self.sees.unwrap_or_else(|| !self.known.is_blind.load(Ordering::Relaxed))
    }

    pub(super) async fn answer(&self, question: &Question<'_>, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let conversation = Conversation::of_question(question, &self.name());
        if conversation.has_images() && !self.sees() {
            return Err(ModelError::ImagesRefused);
        }
        self.ask(&conversation, question.tokens(), sink).await
    }

    pub(super) async fn complete(&self, prompt: &Prompt) -> Result<Answer, ModelError> {
        let mut conversation = Conversation::of_prompt(prompt);
        if self.known.thinks.load(Ordering::Relaxed) {
            conversation.max_tokens = None;
        }
        let mut asked = self.ask(&conversation, prompt.tokens(), NO_SINK).await;
        // Thoughts may have used up the limit, so the model is asked without one, as for a reply.
        if matches!(asked, Err(ModelError::Exhausted)) && conversation.max_tokens.take().is_some() {
            // Noted before the second request, since a caller may have no time for both.
            self.known.thinks.store(true, Ordering::Relaxed);
            asked = self.ask(&conversation, prompt.tokens(), NO_SINK).await;
        }
        let answer = asked?;
        match answer.finish {
            Finish::ContentFilter => Err(ModelError::Filtered),
            _ if answer.text.is_empty() => Err(ModelError::Empty),
            _ => Ok(answer),
        }
    }

    #[tracing::instrument(name = "model", skip_all, fields(
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = self.model.provider.trace_name(),
        gen_ai.request.model = self.model.name(),
        gen_ai.usage.input_tokens,
        gen_ai.usage.output_tokens,
        error.type,
    ))]
    async fn ask(
        &self,
        conversation: &Conversation<'_>,
        estimate: u32,
        sink: Sink<'_>,
    ) -> Result<Answer, ModelError> {
        let timing = self.recorder.begin(Step::Request).named(&self.name());
        let mut request = Request { metrics: Some(&self.metrics), started: Instant::now(), timing };
        let mut partial = PartialAnswer::new(sink, self.name());
        let stream = self.stream(conversation, &mut partial, &mut request.timing);
        let asked = self.clock.within(TOTAL, stream).await;
        match asked.unwrap_or(Err(ModelError::Incomplete("timed out"))) {
            // If the answer is complete, only its usage is lost.
            Err(error)
                if partial.finish.is_none()
                    || !matches!(error, ModelError::Unreachable(_) | ModelError::Incomplete(_)) =>
            {
                partial.void();
                request.failed(&error);
                Err(error)
            }
            _ => {
                let answer = partial.into_answer(estimate).inspect_err(|error| request.failed(error))?;
                request.answered(&answer);
                if let Some(usage) = &answer.usage {
                    let span = tracing::Span::current();
                    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
                    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
                }
                Ok(answer)
            }
        }
    }

    async fn stream(
        &self,
        conversation: &Conversation<'_>,
        partial: &mut PartialAnswer<'_>,
        timing: &mut Timing,
    ) -> Result<(), ModelError> {
        let began = self.clock.now();
        let response = self.clock.within(FIRST, self.send(conversation)).await;
        let mut response = response.ok_or(ModelError::Incomplete("no answer in time"))??;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut frames = Frames::new(media_type.unwrap_or_default());
        let mut limit = FIRST.saturating_sub(self.clock.now().since(began));
        loop {
            let chunk = self.clock.within(limit, response.chunk()).await;
            let chunk = chunk.ok_or(ModelError::Incomplete("the answer stopped"))?;
            let Some(chunk) = chunk.map_err(|error| failure::of_transport(&error))? else { break };
            read(self.model.provider, &frames.push(&chunk)?, false, partial)?;
            if !partial.is_nothing() {
                timing.first_token();
            }
            if partial.is_over {
                // A connection whose answer was read to its end can be used again.
                let _ = response.chunk().now_or_never();
                return Ok(());
            }
            limit = if partial.is_nothing() { FIRST } else { BETWEEN };
        }
        end(self.model.provider, frames, partial)
    }

    /// Sends the request, and if the endpoint refuses its optional part, once more without that. Returns the response once
    /// it has begun successfully.
    async fn send(&self, conversation: &Conversation<'_>) -> Result<reqwest::Response, ModelError> {
        loop {
            if !self.recorder.may_request(conversation.purpose) {
                return Err(ModelError::RequestsSpent);
            }
            let response = self.request(conversation).await?.send().await;
            let response = response.map_err(|error| failure::of_transport(&error))?;
            if response.status().is_success() {
                return Ok(response);
            }
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = response.text().await.unwrap_or_default();
            let status = failure::status_of_response(status, &body);
            if self.model.provider.refuses_option(status, &body)
                && !self.known.refuses_option.swap(true, Ordering::Relaxed)
            {
                continue;
            }
            if conversation.has_images() {
                self.known.is_blind.fetch_or(failure::is_blind(status, &body), Ordering::Relaxed);
                if failure::is_about_images(status, &body) {
                    return Err(ModelError::ImagesRefused);
                }
            }
            return Err(failure::of_response(status, &headers, &body));
        }
    }

    async fn request(&self, conversation: &Conversation<'_>) -> Result<reqwest::RequestBuilder, ModelError> {
        let endpoint = Endpoint {
            base_url: &self.base_url,
            model: &self.model.name,
            marks_cache: self.marks_cache,
            with_option: !self.known.refuses_option.load(Ordering::Relaxed),
        };
        let (url, body) = self.model.provider.request(&endpoint, conversation);
        let body = body.to_string();
        let mut request = self
            .connection
            .client()
            .map_err(|_| ModelError::NoClient)?
            .post(&url)
            .header(CONTENT_TYPE, "application/json");
        if let Some(signer) = &self.signer {
            for (name, value) in signer.sign(&url, body.as_bytes()).await? {
                request = request.header(name, value);
            }
        } else {
            let key = self.api_key.as_ref().map(ExposeSecret::expose_secret);
            for (name, value) in self.model.provider.headers(key) {
                let value = HeaderValue::from_str(&value);
                let mut value =
                    value.map_err(|_| ModelError::Unreachable("its key is not a valid header"))?;
                value.set_sensitive(true);
                request = request.header(name, value);
            }
        }
        Ok(request.body(body))
    }
}

/// Reads a body of this media type, which comes in two chunks, as an answer of each provider; for tests.
pub fn read_by_each(media_type: &str, body: &[u8]) -> Vec<Result<Answer, ModelError>> {
    let read_by = |provider: &&dyn Provider| {
        let (mut frames, mut partial) = (Frames::new(media_type), PartialAnswer::new(NO_SINK, String::new()));
        let (first, second) = body.split_at(body.len() / 2);
        for chunk in [first, second] {
            read(*provider, &frames.push(&Bytes::copy_from_slice(chunk))?, false, &mut partial)?;
            if partial.is_over {
                return partial.into_answer(0);
            }
        }
        end(*provider, frames, &mut partial)?;
        partial.into_answer(0)
    };
    PROVIDERS.iter().map(read_by).collect()
}

/// Adds frames to the answer: pieces, or if it `is_whole`, an answer in one.
fn read(
    provider: &dyn Provider,
    frames: &[Frame],
    is_whole: bool,
    partial: &mut PartialAnswer<'_>,
) -> Result<(), ModelError> {
    for frame in frames {
        match provider.error_in(frame) {
            Some(error) => return Err(failure::of_body(None, error)),
            None if is_whole => provider.read_whole(frame, partial),
            None => provider.read_frame(frame, partial),
        }
    }
    Ok(())
}

/// Adds what is left at the end of the body. An answer in one piece may leave out why it ends, as some servers do; a stream
/// only if its end is marked.
fn end(provider: &dyn Provider, frames: Frames, partial: &mut PartialAnswer<'_>) -> Result<(), ModelError> {
    let (last, is_whole) = frames.end()?;
    read(provider, &last, is_whole, partial)?;
    match partial.finish {
        None if is_whole && partial.is_nothing() => Err(ModelError::Unreadable),
        None if !is_whole && !partial.is_over => Err(ModelError::Incomplete("the answer broke off")),
        _ => Ok(()),
    }
}

fn connect() -> reqwest::Result<reqwest::Client> {
    tls::client()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEPALIVE)
        // No API of a model redirects, and a redirect would carry the key elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// A request under way. It is counted and recorded however it ends, even if nobody waits for it any longer.
struct Request<'a> {
    /// `None` once it is counted.
    metrics: Option<&'a Metrics>,
    /// By the real clock, not a test's: the model is outside the process.
    started: Instant,
    timing: Timing,
}

impl Request<'_> {
    fn answered(mut self, answer: &Answer) {
        let Some(metrics) = self.metrics.take() else { return };
        let latency = self.started.elapsed().as_millis();
        metrics.add(Metric::ModelLatency, u64::try_from(latency).unwrap_or(u64::MAX));
        if let Some(usage) = answer.usage {
            metrics.add(Metric::InputTokens, usage.input_tokens.into());
            metrics.add(Metric::OutputTokens, usage.output_tokens.into());
            self.timing.tokens(usage.input_tokens, usage.output_tokens);
        }
    }

    fn failed(&mut self, error: &ModelError) {
        if *error == ModelError::RequestsSpent {
            // Nothing was sent.
            self.metrics = None;
            self.timing.forget();
        } else if let Some(metrics) = self.metrics.take() {
            metrics.add(Metric::ModelErrors, 1);
            tracing::Span::current().record("error.type", error.kind());
            self.timing.failed(error.kind());
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics {
            metrics.add(Metric::ModelErrors, 1);
            self.timing.failed("given up");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_leave_out_why_it_ends_if_it_is_in_one_piece_or_its_end_is_marked() {
        let bodies = [
            r#"{"choices": [{"message": {"content": "Hi"}}]}"#,
            r#"{"content": [{"type": "text", "text": "Hi"}], "stop_reason": null}"#,
            r#"{"output": {"message": {"content": [{"text": "Hi"}]}}}"#,
        ];
        for (at, body) in bodies.into_iter().enumerate() {
            let mut read = read_by_each("application/json", body.as_bytes());
            assert_eq!(read.remove(at).unwrap().text, "Hi", "{body}");
            assert!(read.into_iter().all(|other| other == Err(ModelError::Unreadable)), "{body}");
        }
        let stream = |end| {
            let body = format!("data: {{\"choices\": [{{\"delta\": {{\"content\": \"Hi\"}}}}]}}\n\n{end}");
            read_by_each("text/event-stream", body.as_bytes()).remove(0)
        };
        assert_eq!(stream(""), Err(ModelError::Incomplete("the answer broke off")));
        assert_eq!(stream("data: [DONE]\n\n").unwrap().text, "Hi");
    }
}
