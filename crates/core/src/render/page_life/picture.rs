//! The picture of a page: the window is made as high as the page, drawn once for the layout, and drawn again as an image.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::super::protocol::{Outbox, Reply};
use super::super::rendered_page::{HEIGHT, WIDTH};
use super::{PageLife, Phase};
use crate::base::time::Time;

/// Limit on the height of a picture in pixels. The rest of a longer page is not in it.
const MAX_HEIGHT: u32 = 8_000;
/// How long a picture may take.
const PICTURE_TIME: Duration = Duration::from_secs(10);
/// Milliseconds between two frames.
const FRAME: f64 = 16.0;

impl PageLife {
    /// Makes the window as high as the page, and draws it for the first time.
    pub(super) fn begin_picture(&mut self, now: Time, out: &mut Outbox) {
        self.phase = Phase::Picturing;
        self.reading_until = now + PICTURE_TIME;
        self.steps = 0;
        let height = (self.probe.height.max(0.0) as u32).clamp(HEIGHT, MAX_HEIGHT);
        let size = json!({ "width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.step(out, "Emulation.setDeviceMetricsOverride", size);
        let ticks = self.ticks + self.probe.now + FRAME;
        self.step(out, "HeadlessExperimental.beginFrame", json!({ "frameTimeTicks": ticks }));
    }

    /// Draws the page as an image.
    pub(super) fn draw(&mut self, out: &mut Outbox) {
        let ticks = self.ticks + self.probe.now + 2.0 * FRAME;
        let params = json!({ "frameTimeTicks": ticks, "screenshot": { "format": "png" } });
        self.command(out, "HeadlessExperimental.beginFrame", params, Some(Reply::Picture));
    }

    /// The picture in base64; `None` if there is none.
    pub(in super::super) fn picture_taken(&mut self, picture: Option<&str>, now: Time, out: &mut Outbox) {
        if self.phase != Phase::Picturing {
            return;
        }
        self.screenshot = picture.and_then(|text| STANDARD.decode(text).ok()).filter(|bytes| !bytes.is_empty());
        self.command(out, "Emulation.clearDeviceMetricsOverride", json!({}), None);
        self.click_or_finish(now, out);
    }

    /// Whether the page waits for its picture.
    pub(in super::super) fn is_picturing(&self) -> bool {
        self.phase == Phase::Picturing
    }
}
