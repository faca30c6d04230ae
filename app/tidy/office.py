"""Tables as Word documents and Excel workbooks: the least that such files need (ECMA-376).

The same tables have the same bytes: members of the archive have a fixed date.

May enter: text and numbers of tables. May import: the standard library alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from itertools import count
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

Table = tuple[Sequence[str], Sequence[Sequence[str]], str]
"""The heads, the rows, and a note below them."""
Sheet = tuple[Sequence[str], Iterable[Sequence[object]]]
"""The heads, and rows whose cells are numbers or texts."""

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_BEGUN = (1980, 1, 1, 0, 0, 0)  # the earliest date that a ZIP file can state
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OFFICE = "http://schemas.openxmlformats.org"
_RELATIONS = f"{_OFFICE}/officeDocument/2006/relationships"
_LARGEST = 1 << 53  # whole numbers beyond it are texts: Excel would round them


def word_document(tables: Sequence[Table]) -> bytes:
    """Return a Word file of tables, each with a rule above and below its heads and at its end."""
    body = "".join(f"{_word_table(heads, rows)}{_paragraph(note)}" for heads, rows, note in tables)
    written = (
        f'{_HEAD}<w:document xmlns:w="{_OFFICE}/wordprocessingml/2006/main">'
        f"<w:body>{body}<w:sectPr/></w:body></w:document>"
    )
    return _archive(
        {
            "[Content_Types].xml": _types({"/word/document.xml": f"{WORD}.main+xml"}),
            "_rels/.rels": _relations({"officeDocument": ["word/document.xml"]}),
            "word/document.xml": written,
        }
    )


def workbook(sheets: Sequence[Sheet], titles: Sequence[str]) -> bytes:
    """Return an Excel file with a sheet for each table, named ``Table 1`` and so on.

    Numbers are numbers, with all digits. A text is never a formula, however it begins. A last
    sheet has the titles: a table of groups does not say elsewhere what its numbers are.
    """
    called = [f"Table {at}" for at, _ in enumerate(sheets, start=1)]
    sheets = [*sheets, (("Sheet", "Content"), [*zip(called, titles, strict=True)])]
    names = [f"worksheets/sheet{at}.xml" for at, _ in enumerate(sheets, start=1)]
    listed = "".join(
        f'<sheet name="{name}" sheetId="{at}" r:id="rId{at}"/>'
        for at, name in enumerate([*called, "Contents"], start=1)
    )
    book = (
        f'{_HEAD}<workbook xmlns="{_OFFICE}/spreadsheetml/2006/main" xmlns:r="{_RELATIONS}">'
        f"<sheets>{listed}</sheets></workbook>"
    )
    kinds = {"/xl/workbook.xml": f"{EXCEL}.main+xml"}
    kinds |= {f"/xl/{name}": f"{EXCEL.removesuffix('sheet')}worksheet+xml" for name in names}
    parts = {
        "[Content_Types].xml": _types(kinds),
        "_rels/.rels": _relations({"officeDocument": ["xl/workbook.xml"]}),
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": _relations({"worksheet": names}),
    }
    for name, (heads, rows) in zip(names, sheets, strict=True):
        lines = "".join(map(_sheet_row, [heads, *rows]))
        parts[f"xl/{name}"] = (
            f'{_HEAD}<worksheet xmlns="{_OFFICE}/spreadsheetml/2006/main">'
            f"<sheetData>{lines}</sheetData></worksheet>"
        )
    return _archive(parts)


def _archive(parts: Mapping[str, str]) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for name, text in parts.items():
            member = ZipInfo(name, date_time=_BEGUN)
            member.compress_type = ZIP_DEFLATED
            archive.writestr(member, text)
    return file.getvalue()


def _types(kinds: Mapping[str, str]) -> str:
    """Return which kind each part of a file is."""
    listed = "".join(
        f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in kinds.items()
    )
    return (
        f'{_HEAD}<Types xmlns="{_OFFICE}/package/2006/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{listed}</Types>'
    )


def _relations(targets: Mapping[str, Sequence[str]]) -> str:
    """Return what a part refers to, by what that is to it."""
    number = count(1)
    listed = "".join(
        f'<Relationship Id="rId{next(number)}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for kind, names in targets.items()
        for target in names
    )
    named = f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">'
    return f"{_HEAD}{named}{listed}</Relationships>"


def _sheet_row(cells: Sequence[object]) -> str:
    return f"<row>{''.join(map(_sheet_cell, cells))}</row>"


def _sheet_cell(cell: object) -> str:
    if isinstance(cell, int | float) and not isinstance(cell, bool) and abs(cell) <= _LARGEST:
        return f"<c><v>{cell!r}</v></c>"
    return f'<c t="inlineStr"><is><t xml:space="preserve">{_plain(str(cell))}</t></is></c>'


def _word_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    last = len(rows) - 1
    lines = [_word_row(heads, top=True, bottom=True, bold=True)]
    lines += [_word_row(row, bottom=at == last) for at, row in enumerate(rows)]
    grid = "<w:gridCol/>" * len(heads)
    return (
        f'<w:tbl><w:tblPr><w:tblW w:w="0" w:type="auto"/></w:tblPr><w:tblGrid>{grid}</w:tblGrid>'
        f"{''.join(lines)}</w:tbl>"
    )


def _word_row(
    cells: Sequence[str], *, top: bool = False, bottom: bool = False, bold: bool = False
) -> str:
    rules = "".join(
        f'<w:{side} w:val="single" w:sz="6" w:space="0" w:color="auto"/>'
        for side, drawn in (("top", top), ("bottom", bottom))
        if drawn
    )
    borders = f"<w:tcBorders>{rules}</w:tcBorders>" if rules else ""
    inside = "".join(
        f"<w:tc><w:tcPr>{borders}</w:tcPr>{_paragraph(cell, bold=bold)}</w:tc>" for cell in cells
    )
    return f"<w:tr>{inside}</w:tr>"


def _paragraph(text: str, *, bold: bool = False) -> str:
    style = "<w:rPr><w:b/></w:rPr>" if bold else ""
    return f'<w:p><w:r>{style}<w:t xml:space="preserve">{_plain(text)}</w:t></w:r></w:p>'


def _plain(text: str) -> str:
    # Indented rows begin with spaces, which XML would drop; control characters it does not have.
    return escape("".join(each for each in text if each >= " "))
