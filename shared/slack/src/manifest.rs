//! The manifest of the app that an administrator creates in Slack.

use serde_json::{Value, json};

/// The route of the API that takes interactions.
pub const ROUTE: &str = "/slack/interactions";

/// The manifest of an app that posts messages and hands its interactions to the gate whose API stands at `api`. It asks
/// for one permission: to write where it was invited.
#[must_use]
pub fn manifest(api: &str) -> Value {
    json!({
        "display_information": {
            "name": "plangate",
            "description": "Changes of infrastructure that wait for a decision",
            "background_color": "#1d3557"
        },
        "features": { "bot_user": { "display_name": "plangate", "always_online": true } },
        "oauth_config": { "scopes": { "bot": ["chat:write"] } },
        "settings": {
            "interactivity": { "is_enabled": true, "request_url": format!("{}{ROUTE}", api.trim_end_matches('/')) },
            "org_deploy_enabled": false,
            "socket_mode_enabled": false,
            "token_rotation_enabled": false
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_asks_to_write_and_for_nothing_else() {
        let manifest = manifest("https://abc.execute-api.eu-central-1.amazonaws.com/");
        assert_eq!(manifest["oauth_config"]["scopes"], json!({"bot": ["chat:write"]}));
        assert_eq!(
            manifest["settings"]["interactivity"]["request_url"],
            "https://abc.execute-api.eu-central-1.amazonaws.com/slack/interactions"
        );
        assert!(manifest["display_information"]["name"].as_str().unwrap().len() <= 35);
        assert!(manifest["display_information"]["description"].as_str().unwrap().len() <= 140);
    }
}
