"""For scripts/check_report.sh: checks that a page of --report shows all of its document, from the DOM that a browser made.

    scripts/report_shows_all.py DOM.html
"""
import html.parser
import json
import sys
from collections import Counter


class Page(html.parser.HTMLParser):
    """The texts and tooltips that a reader finds on a page, and the document from which the page was made."""

    def __init__(self, text):
        super().__init__()
        self.shown, self.hidden, self.document, self.hides = [], Counter(), "", False
        self.pictures = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.pictures += tag == "svg"
        self.hides |= tag == "main" and "hidden" in attributes
        self.hidden[tag] += tag in ("script", "style", "noscript")
        self.is_document = attributes.get("id") == "document"
        self.shown.append(attributes.get("title", ""))

    def handle_endtag(self, tag):
        self.hidden[tag] -= tag in ("script", "style", "noscript")

    def handle_data(self, text):
        if self.hidden["script"] and self.is_document:
            self.document += text
        elif not any(self.hidden.values()):
            self.shown.append(text)


def texts(value, name=""):
    """All texts and numbers in the document that a page must show, and its pictures."""
    if name in ("chart_style", "kind", "colour", "share", "bar") or isinstance(value, bool):
        return
    if isinstance(value, (dict, list)):
        for key, member in value.items() if isinstance(value, dict) else ((name, member) for member in value):
            yield from texts(member, key)
    elif value not in (None, ""):
        yield name, str(value)


page = Page(open(sys.argv[1]).read())
document = list(texts(json.loads(page.document)))
lacking = [text for name, text in document if name != "svg" and not any(text in shown for shown in page.shown)]
pictures = sum(name == "svg" for name, _ in document)
if page.hides or lacking or page.pictures != pictures:
    print(f"hidden: {page.hides}; {page.pictures} pictures of {pictures}; not on the page: {lacking[:5]}")
    sys.exit(1)
