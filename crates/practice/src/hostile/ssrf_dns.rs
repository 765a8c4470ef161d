//! Names and addresses that lead into private networks, or nowhere.

use super::{Case, Expect, demand};
use crate::answer::Answer;
use crate::proxy::Proxy;

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new("NET18", "private targets through a proxy", Expect::Skip, |stage| {
        let site = stage.site()?;
        let inside = [site.url("/inside"), site.url_as("localhost", "/inside"), site.url_as("db.internal", "/inside")];
        let proxy = Proxy::http().name("far.test", site.address().ip());
        let proxy = stage.raw(move |talk| proxy.serve(talk, |_| {}))?;
        stage.set("proxy", format!("http://{proxy}"));
        stage.set("scope", "any");
        stage.root(site.url_as("far.test", "/"));
        stage.open(site.page("/", Answer::links(&inside)).fallback(Answer::html("a secret")));
        inside.into_iter().for_each(|url| stage.judge(url));
        stage.check("the proxy is used, and not for these", |report| {
            demand(report.asked("/") > 0 && report.asked("/inside") == 0, "a private target was asked for")
        });
        Ok(())
    })]
}
