/** A browser as far as redirects and forms go: it keeps the cookies of each origin, and runs no script. */
export class Walker {
  readonly #cookies = new Map<string, Map<string, string>>();
  /** The headers of the last reply. */
  setCookies: string[] = [];

  /** The cookies of an origin, as a request sends them. */
  cookiesOf(origin: string): string {
    return [...(this.#cookies.get(origin) ?? [])].map(([name, value]) => `${name}=${value}`).join('; ');
  }

  setCookie(origin: string, name: string, value: string): void {
    const jar = this.#cookies.get(origin) ?? new Map<string, string>();
    this.#cookies.set(origin, jar);
    if (value === '') jar.delete(name);
    else jar.set(name, value);
  }

  /** Requests one address, without following a redirect. */
  async fetch(url: string, form?: Record<string, string>): Promise<Response> {
    const { origin } = new URL(url);
    const reply = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: this.cookiesOf(origin), 'sec-fetch-site': 'cross-site', accept: 'text/html' },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const set of reply.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      this.setCookie(origin, name, value);
    }
    return reply;
  }

  /**
   * Follows redirects and, at the provider, the forms that sign a person in and let the client know them.
   * @param until ends the walk at the first address for which it is true, which is not requested.
   * @returns the address at the end.
   */
  async walk(start: string, login: string, until: (url: string) => boolean = () => false): Promise<string> {
    let url = start;
    let form: Record<string, string> | undefined;
    for (let step = 0; step < 20; step++) {
      if (until(url)) return url;
      const reply = await this.fetch(url, form);
      form = undefined;
      const location = reply.headers.get('location');
      if (location !== null) url = new URL(location, url).href;
      else {
        const [, prompt] = /name="prompt" value="(\w+)"/.exec(await reply.text()) ?? [];
        const [, action] = /\/interaction\/[^/]+/.test(url) ? [null, url] : [];
        if (prompt === undefined || action === undefined) return url;
        form = prompt === 'login' ? { prompt, login, password: 'any' } : { prompt };
      }
    }
    throw new Error(`the sign-in did not end: ${url}`);
  }
}
