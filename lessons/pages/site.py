"""./learn site: the lessons as HTML pages, with the files that they link to. pages/page.html is the template of all pages.

A file of the repository becomes one page: README.md of a folder its index.html, other Markdown NAME.html, a source its text with
numbered lines. Pages are found by following links from the course's list, so there are no broken links.
"""
import html
import os
import pathlib
import re
import urllib.parse

from course import FENCE, LESSONS, ROOT, TASKS, Problem, lessons, questions_of, results_in, tasks_of
from pages.figures import Figures

try:
    import markdown
    import pygments
    from pygments import formatters, lexers
except ImportError as error:
    raise Problem(f"there is no Python package {error.name}: apt-get install python3-markdown python3-pygments, "
                  "or pip install markdown pygments, installs both") from None

START = LESSONS / "README.md"
GLOSSARY = ROOT / "docs/glossary.md"
HEADING = re.compile(r"^(?=\*\*[A-Z][^*\n]*[.:?]\*\*)", re.MULTILINE)  # in bold, at the beginning of a paragraph
FIGURE = re.compile(r"<!-- figure: ([\w-]+) -->")
LINK = re.compile(r'(<(?:a|img) [^>]*?(?:href|src)=")([^"]*)(")')


# ---- texts --------------------------------------------------------------------------------------------------------


def as_html(text):
    """Markdown as GitHub shows it."""
    text = re.sub(r"^```text.*$", "```text", text, flags=re.MULTILINE)  # "text within 1%" is for the tests
    text = text.replace("<details>", '<details markdown="1">').replace("<summary>", '<summary markdown="span">')
    body = markdown.markdown(text, extensions=["tables", "fenced_code", "codehilite", "md_in_html", "toc", "sane_lists"],
                             extension_configs={"codehilite": {"guess_lang": False, "css_class": "code"}})
    body = re.sub(r"<table>.*?</table>", lambda table: in_box(table[0], "table"), body, flags=re.DOTALL)
    return re.sub(r'<div class="code">.*?</div>', lambda code: code[0].replace("<pre>", f"<pre {box_attributes('code')}>"), body,
                  flags=re.DOTALL)


def box_attributes(what):
    """Attributes of an element that scrolls sideways: it can be reached by the keyboard, and has a name."""
    return f'tabindex="0" role="region" aria-label="{html.escape(what)}"'


def in_box(element, what):
    return f'<div class="scroll" {box_attributes(what)}>{element}</div>'


def source_as_html(path, numbered=True):
    """A source file with its lines numbered; line 12 has the id L12."""
    text = path.read_text()
    names = {".cu": "x.cpp", ".h": "x.cpp"}
    try:
        lexer = lexers.get_lexer_for_filename(names.get(path.suffix, path.name), text)
    except pygments.util.ClassNotFound:
        lexer = lexers.TextLexer()
    lexer.stripnl = False
    formatter = formatters.HtmlFormatter(cssclass="code", linespans="L" if numbered else "", wrapcode=True)
    shown = pygments.highlight(text, lexer, formatter).replace('id="L-', 'class="line" id="L')
    return shown.replace("<pre>", f"<pre {box_attributes(path.name)}>")


def folded(summary, body, classes=""):
    return f'<details class="{classes}"><summary>{summary}</summary>\n{body}\n</details>\n'


# ---- a lesson -------------------------------------------------------------------------------------------------------


def prediction_form(questions, page_after_run):
    """A field for each prediction; the page's quoted results are shown when all are filled in."""
    rows = []
    for number, (question, result) in enumerate(zip(questions, results_in(page_after_run, questions))):
        rows.append(f'<li><label for="prediction{number}">{html.escape(question["ask"])}</label>'
                    f'<input id="prediction{number}" autocomplete="off"><span>it prints <b>{html.escape(result)}</b></span></li>')
    return f'<form class="predict"><ol>{"".join(rows)}</ol><button>Compare</button><p role="status"></p></form>\n'


def quiz_form(questions):
    """Questions with choices; each choice has its explanation, which the script shows when it is chosen."""
    shown = []
    for number, question in enumerate(questions):
        choices = "".join(f'<label><input type="radio" name="quiz{number}" data-why="{html.escape(say(choice))}"> '
                          f'<span>{html.escape(choice["text"])}</span></label>' for choice in question["choices"])
        shown.append(f'<fieldset class="quiz"><legend>{html.escape(question["ask"])}</legend>{choices}<p role="status"></p></fieldset>\n')
    return "".join(shown)


def say(choice):
    return ("Yes. " if choice["right"] else "No. ") + choice["why"]


def task_section(number, task):
    commands = "\n".join(f"./learn {number} {action} {task.name}" for action in ("task", "test", "hint", "solution"))
    title, text = task.text.split("\n", 1)
    hints = "".join(folded(f"Hint {i + 1}", as_html(hint)) for i, hint in enumerate(task.hints))
    return (f'<section class="task"><h2 id="task-{task.name}">Task: {html.escape(title.lstrip("# "))}</h2>\n{as_html(text)}'
            + as_html(f"```sh\n{commands}\n```\n")
            + folded("The functions to write: task.h", source_as_html(task.folder / "task.h", numbered=False))
            + folded("What you begin with", source_as_html(task.stub, numbered=False)) + hints
            + folded("A solution", source_as_html(task.solution, numbered=False)) + "</section>\n")


def lesson_as_html(number, folder, text):
    """The page of a lesson: predictions are asked for before any output is shown, answers are folded."""
    questions = questions_of(folder)
    before, after = text.split("**Run.**", 1)
    said, turn = after.split("**Now turn this.**", 1)
    turn, code = turn.split("**In the code.**", 1)
    code, quiz = code.split("## Quiz", 1)
    return "".join([as_html(before), prediction_form(questions["predict"], after),
                    with_results_folded("**Run.**" + said, "What it prints, and why"),
                    with_results_folded("**Now turn this.**" + turn, "What happens"), as_html("**In the code.**" + code),
                    *(task_section(number, task) for task in tasks_of(folder)),
                    '<section><h2 id="quiz">Quiz</h2>\n', quiz_form(questions["quiz"]), "<h3>In your own words</h3>\n",
                    as_html(quiz), "</section>\n"])


def with_results_folded(text, summary):
    """A part of a page that begins with a command. The text after the command is folded, so that the reader predicts before seeing the
    result; likewise after each heading in bold whose paragraph leads to another command."""
    sections = []
    for section in filter(None, HEADING.split(text)):
        fence = FENCE.search(section)
        leads_to_command = fence and "\n\n" not in section[:fence.start()].rstrip()
        if leads_to_command or not sections:
            sections.append(section)
        else:
            sections[-1] += section
    shown = []
    for section in sections:
        end = FENCE.search(section).end()
        shown += [as_html(section[:end]), folded(summary, as_html(section[end:]), "result")]
    return "".join(shown)


# ---- all pages ------------------------------------------------------------------------------------------------------


def page_of(path):
    """The place of the page of a file or folder of the repository, relative to the site."""
    name = path.relative_to(ROOT)
    if path == START:
        return pathlib.Path("index.html")
    if path.is_dir() or (name.name == "README.md" and path.parent != ROOT):
        return (name if path.is_dir() else name.parent) / "index.html"
    if path.suffix in (".svg", ".png"):
        return name
    return name.with_suffix(".html") if path.suffix == ".md" else name.with_name(name.name + ".html")


def readme_of(path):
    """The README.md of a folder that has one, else the path itself: folder and README.md are the same page."""
    return path / "README.md" if (path / "README.md").is_file() else path


class Site:
    """All pages: the files that the course's list links to, those that these link to, and so on."""

    def __init__(self, build):
        self.figures = Figures(build)
        self.template = (LESSONS / "pages/page.html").read_text().replace("@COLOURS@", self.figures.colours())
        self.lessons = {folder / "README.md": (number, folder) for number, folder in lessons()}
        self.waiting = [START, GLOSSARY, *self.lessons, *TASKS.glob("README.md")]
        self.seen = set(self.waiting)

    def pages(self):
        """The contents of all files, by their places."""
        self.figures.make(name for path in self.lessons for name in FIGURE.findall(path.read_text()))
        made = {}
        while self.waiting:
            path = self.waiting.pop()
            made[page_of(path)] = path.read_bytes() if path.suffix in (".svg", ".png") else self.page(path).encode()
        return made

    def page(self, path):
        title, body = self.content(path)
        here = page_of(path)
        fields = {"TITLE": html.escape(title), "BODY": self.linked(body, path, here), "NEXT": self.neighbours(path, here),
                  "HOME": self.address(START, here), "GLOSSARY": self.address(GLOSSARY, here)}
        return re.sub(r"@([A-Z]+)@", lambda mark: fields[mark[1]], self.template)

    def content(self, path):
        """(title, HTML) of a file."""
        name = str(path.relative_to(ROOT))
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.is_file())
            return name, f"<h1>{name}</h1>\n<ul>" + "".join(f'<li><a href="{file.name}">{file.name}</a></li>' for file in files) + "</ul>\n"
        if path.suffix != ".md":
            return name, f"<h1>{html.escape(name)}</h1>\n" + source_as_html(path)
        text = path.read_text()
        body = lesson_as_html(*self.lessons[path], text) if path in self.lessons else as_html(text)
        body = FIGURE.sub(lambda figure: self.figures.html(figure[1]), body)
        title = re.match(r"# (.*)", text)
        return (title[1], body) if title else (name, f"<h1>{html.escape(name)}</h1>\n{body}")

    def neighbours(self, path, here):
        """Links to the lessons before and after."""
        order = list(self.lessons)
        if path not in order:
            return ""
        place, links = order.index(path), []
        for other, words in ((place - 1, "Before"), (place + 1, "Next")):
            if 0 <= other < len(order):
                title = re.match(r"# (.*)", order[other].read_text())[1]
                links.append(f'<a href="{self.address(order[other], here)}">{words}: {html.escape(title)}</a>')
        return "".join(links)

    def address(self, path, here):
        return os.path.relpath(page_of(path), here.parent)

    def linked(self, body, path, here):
        """Replaces a page's links to files of the repository by links to their pages, which are then written too."""
        base = path if path.is_dir() else path.parent

        def replace(link):
            target, mark, part = html.unescape(link[2]).partition("#")
            if not target or urllib.parse.urlsplit(target).scheme:
                return link[0]
            file = readme_of(pathlib.Path(os.path.normpath(base / target)))
            if not file.exists() or ROOT not in (file, *file.parents):
                raise Problem(f"{path.relative_to(ROOT)} links to {target}: there is no such file")
            if file not in self.seen:
                self.seen.add(file)
                self.waiting.append(file)
            return f"{link[1]}{self.address(file, here)}{mark}{part}{link[3]}"

        return LINK.sub(replace, body)


def write_site(build, folder):
    """Makes all pages, then writes them into a folder; returns their number."""
    pages = Site(build).pages()
    for place, content in pages.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
    return len(pages)
