//! The interface for the page's web worker.

use crate::{Request, Session, answer};
use wasm_bindgen::prelude::wasm_bindgen;

/// The explorer of one page, with its open program.
#[wasm_bindgen]
#[derive(Default)]
pub struct Explorer {
    session: Option<Session>,
}

#[wasm_bindgen]
impl Explorer {
    /// An explorer without a program.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a [`Request`], given as JSON. The response is JSON.
    pub fn ask(&mut self, request: &str) -> String {
        match serde_json::from_str::<Request>(request) {
            Ok(request) => answer(&mut self.session, request),
            Err(error) => serde_json::json!({
                "error": crate::Problem::new(error.to_string())
            })
            .to_string(),
        }
    }
}
