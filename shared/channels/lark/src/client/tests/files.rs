//! Tests of downloads.

use annals_channel::file::FileError;
use annals_test_support::lark_api::picture;

use super::*;

#[tokio::test]
async fn a_resource_is_read_up_to_the_limit() {
    let (api, client, _) = start().await;
    api.seed(json!({"message_id": "om_1", "chat_id": CHAT, "create_time": "1"}));
    assert_eq!(client.resource("om_1", "img_1", "image", 100).await, Ok(picture("img_1")));
    assert_eq!(client.resource("om_1", "file_1", "file", 100).await, Ok(picture("file_1")));
    assert_eq!(client.resource("om_1", "img_1", "image", 10).await, Err(FileError::TooLarge));
    assert!(matches!(client.resource("om_1", "img_1", "file", 100).await, Err(FileError::Gone(_))));
    api.edit(|store| store.gone.insert("img_2".into()));
    assert!(matches!(client.resource("om_1", "img_2", "image", 100).await, Err(FileError::Gone(_))));
    // A token that is no longer accepted is replaced, once.
    api.edit(|store| store.tokens.clear());
    assert_eq!(client.resource("om_1", "img_1", "image", 100).await, Ok(picture("img_1")));
    api.refuse_tokens(true);
    let error = client.resource("om_1", "img_1", "image", 100).await.unwrap_err();
    assert!(matches!(error, FileError::Unavailable(_)), "{error:?}");
    assert!(!logged(&error).contains("t-testToken"), "{error:?}");
    api.refuse_tokens(false);
    // The bot may be added to the chat again, so the file is not gone.
    api.trouble(CHAT, Trouble::Expelled);
    let error = client.resource("om_1", "img_1", "image", 100).await.unwrap_err();
    assert!(matches!(&error, FileError::Unavailable(said) if said.contains("234004")), "{error:?}");
    api.restore(CHAT);
    api.fail(1, 502);
    let error = client.resource("om_1", "img_1", "image", 100).await.unwrap_err();
    assert!(matches!(error, FileError::Unavailable(_)), "{error:?}");
    // A segment of an id does not change the path.
    let error = client.resource("om_1/../..", "../info", "image", 100).await.unwrap_err();
    assert!(matches!(error, FileError::Unavailable(_) | FileError::Gone(_)), "{error:?}");
    assert!(api.calls().iter().all(|call| call.name != "bot"));
}
