// Pause and resume, for those who know the token. It is held in this variable and nowhere else: closing the page forgets it.
import { post, Refusal, type Status } from "./api";
import { byId, show } from "./dom";

export class Pause {
  private token = "";
  private paused = false;
  private readonly ask = byId<HTMLDialogElement>("ask");
  private readonly field = byId<HTMLInputElement>("token");
  private readonly error = byId("ask-error");

  constructor(
    private readonly button: HTMLButtonElement,
    private readonly readOnly: HTMLElement,
    private readonly done: () => void,
  ) {
    readOnly.title = "Set http.token_file to allow pause and resume.";
    button.addEventListener("click", () => {
      if (this.token) void this.send();
      else this.open("");
    });
    byId("ask-cancel").addEventListener("click", () => this.ask.close());
    byId("ask-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.token = this.field.value;
      void this.send();
    });
    this.ask.addEventListener("close", () => (this.field.value = ""));
  }

  show(s: Status): void {
    this.paused = s.paused;
    this.button.hidden = !s.may_pause;
    this.readOnly.hidden = s.may_pause;
    show(this.button, s.paused ? "Resume moving" : "Pause moving");
  }

  private open(text: string): void {
    this.error.textContent = text;
    if (!this.ask.open) this.ask.showModal();
    this.field.focus();
  }

  private async send(): Promise<void> {
    this.button.disabled = true;
    try {
      await post(this.paused ? "resume" : "pause", this.token);
      this.ask.close();
      this.done();
    } catch (error) {
      this.token = "";
      const refused = error instanceof Refusal && error.code === 401;
      this.open(refused ? "The daemon does not know this token." : `The daemon did not do it: ${error instanceof Error ? error.message : "no answer"}`);
    } finally {
      this.button.disabled = false;
    }
  }
}
