"""The page of a recording: one file without a server."""

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


def test_a_name_in_a_recording_cannot_end_the_script():
    page = recording_page({"network": "</script><b>"}, "<title>")
    assert "</script><b>" not in page
    assert "\\u003c/script>" in page
    assert "&lt;title&gt;" in page
