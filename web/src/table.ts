// Tables of which only one page is in the document: a plan may have hundreds of moves.
import { type Content, el } from "./dom";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => Content;
  number?: boolean; // aligned right
  short?: boolean; // is not broken into lines
  wide?: boolean; // takes the room that is left
}

export class Table<Row> {
  private rows: Row[] = [];
  private first = 0;
  private readonly body = el("tbody");
  private readonly empty = el("p", { class: "empty" });
  private readonly table: HTMLTableElement;
  private readonly pager = el("div", { class: "pager" });
  private readonly shown = el("span", { role: "status" });
  private readonly back: HTMLButtonElement;
  private readonly on: HTMLButtonElement;

  constructor(
    frame: HTMLElement,
    caption: string,
    private readonly columns: Column<Row>[],
    private readonly none: string,
    private readonly size = 12,
  ) {
    this.table = el(
      "table",
      {},
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: this.classOf(c) }, c.title)))),
      this.body,
    );
    this.back = el("button", { type: "button", "aria-label": `${caption}: previous page` }, "‹ Previous");
    this.on = el("button", { type: "button", "aria-label": `${caption}: next page` }, "Next ›");
    this.back.addEventListener("click", () => this.turn(-1));
    this.on.addEventListener("click", () => this.turn(1));
    this.pager.append(this.back, this.shown, this.on);
    frame.classList.add("table");
    frame.replaceChildren(this.empty, this.table, this.pager);
    this.draw();
  }

  // set shows other rows, on the same page as long as there is one.
  set(rows: Row[], none = this.none): void {
    this.rows = rows;
    this.empty.textContent = none;
    this.draw();
  }

  private classOf(c: Column<Row>): string {
    return c.number ? "number" : c.short ? "short" : c.wide ? "wide" : "";
  }

  private turn(by: number): void {
    this.first += by * this.size;
    this.draw();
    if (this.back.disabled && by < 0) this.on.focus();
    if (this.on.disabled && by > 0) this.back.focus();
  }

  private draw(): void {
    const last = Math.max(0, Math.floor((this.rows.length - 1) / this.size) * this.size);
    this.first = Math.min(Math.max(0, this.first), last);
    const page = this.rows.slice(this.first, this.first + this.size);
    this.body.replaceChildren(
      ...page.map((row) =>
        el("tr", {}, ...this.columns.map((c) => el("td", { class: this.classOf(c), "data-title": c.title }, c.cell(row)))),
      ),
    );
    if (!this.empty.textContent) this.empty.textContent = this.none;
    this.empty.hidden = this.rows.length > 0;
    this.table.hidden = this.rows.length === 0;
    this.pager.hidden = this.rows.length <= this.size;
    this.back.disabled = this.first === 0;
    this.on.disabled = this.first === last;
    this.shown.textContent = `${this.first + 1} to ${this.first + page.length} of ${this.rows.length}`;
  }
}
