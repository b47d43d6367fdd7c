// Making elements. Text goes in as text and never as markup: what a cluster calls its nodes and indices is not ours to trust.

type Attributes = Record<string, string | number | boolean>;
export type Content = Node | string | number | null | undefined;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...content: Content[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  element.append(...content.filter((c) => c !== null && c !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return element;
}

// byId finds what index.html has; that it is missing is a fault of the page.
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

// show puts an element's text where it differs, so that screen readers hear only what changed.
export function show(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
