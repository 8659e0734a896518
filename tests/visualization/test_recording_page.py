"""The page of a recording: one file without a server."""

import json
import re

import pytest

from dualmctx.pages import bundle_modules
from dualmctx.visualization import recording_page


def test_modules_become_one_script_in_the_order_of_their_imports(tmp_path):
    (tmp_path / "main.js").write_text(
        'import { one, two } from "./numbers.js";\n'
        'import { isNumber } from "/shared/text.js";\n'
        "export function sum() { return one + two; }\n"
    )
    (tmp_path / "numbers.js").write_text("export const one = 1;\nexport const two = 2;\n")
    script = bundle_modules(tmp_path, "main.js")
    assert script.index("const one = 1;") < script.index("function sum()")
    assert "const { one, two } = module_numbers_js;" in script
    assert "return { one, two };" in script
    assert "const { isNumber } = module_text_js;" in script
    assert script.index("function isNumber") < script.index("function sum()")
    assert not re.search(r"^(import|export)", script, re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ('import * as all from "./b.js";\n', "import"),
        ("export default 1;\n", "export default"),
        ("const a = '</script>';\n", "</script"),
        ('import { a } from "./main.js";\n', "main.js -> main.js"),
    ],
)
def test_modules_that_cannot_be_joined_are_named(tmp_path, source, part):
    (tmp_path / "main.js").write_text(source)
    with pytest.raises(ValueError, match=re.escape(part)):
        bundle_modules(tmp_path, "main.js")


HOSTILE = "</script><script>alert(1)</script><!--&\u2028\u2029\"'\\"


def test_a_recording_is_embedded_unchanged_and_cannot_escape():
    recording = {"game": HOSTILE, "moves": [HOSTILE], "value": [0.1, 1e-45, float("nan")]}
    page = recording_page(recording, title=HOSTILE)
    data, code = re.findall(r"<script[^>]*>(.*?)</script>", page, flags=re.DOTALL)
    assert json.loads(data) == recording | {"value": [0.1, 1e-45, None]}
    assert "alert" not in code
    assert "<!--" not in data
    assert "<title>&lt;/script&gt;" in page
    # Nothing is loaded; the names of XML's formats are no addresses.
    page = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\bsrc=|@import|url\((?!data:)", page)
