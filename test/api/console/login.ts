import type { ConsoleLogin } from '../../../src/api/console/people.ts';
import { resolveLogin } from '../../../src/api/console/people.ts';
import type { LoginConfig } from '../../../src/core/config/config.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import type { Api } from '../harness.ts';

/** Roles by group: publishers operate `maps` and see `docs`, admins may do everything. */
export const roles: LoginConfig['roles'] = [
  { role: 'admin', claims: { groups: 'admins' }, pipelines: null },
  { role: 'operator', claims: { groups: 'publishers' }, pipelines: ['maps'] },
  { role: 'viewer', claims: { groups: ['publishers', 'readers'] }, pipelines: ['maps', 'docs'] },
];

/** The login settings of the console at `publicUrl` with this issuer. */
export function loginWith(
  { issuer, clientId }: { issuer: string; clientId: string },
  publicUrl: string,
  { secret = null, ...more }: Partial<LoginConfig> & { secret?: string | null } = {},
): ConsoleLogin {
  const { config } = parseConfig(Buffer.from('pipelines: []'), '/etc/waybill.yml', { home: '/' });
  const login: LoginConfig = {
    issuer,
    clientId,
    clientSecretEnv: secret === null ? null : 'SECRET',
    publicUrl,
    name: null,
    scopes: ['openid'],
    roles,
    ...more,
  };
  config.server.console.login = login;
  const secrets = { get: () => undefined, require: () => secret ?? '', warnings: [] };
  const resolved = resolveLogin(config, secrets);
  if (resolved === null) throw new TypeError('the console is on');
  return resolved;
}

/** Follows redirects with cookies, and the header `Refresh` of the page after a login. */
export class HttpBrowser {
  readonly cookies = new Map<string, string>();

  async get(
    url: string,
    { follow = () => true }: { follow?: (url: string) => boolean } = {},
  ): Promise<{ url: string; page: Response }> {
    for (;;) {
      const page = await this.send(url);
      const refresh = /^0; url=(.*)$/.exec(page.headers.get('refresh') ?? '')?.[1];
      const next = page.headers.get('location') ?? refresh;
      if (next === undefined) return { url, page };
      url = new URL(next, url).href;
      if (!follow(url)) return { url, page };
    }
  }

  async send(url: string, form?: Record<string, string>): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const init = form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) };
    const page = await fetch(url, { ...init, redirect: 'manual', headers: { cookie, accept: 'text/html' } });
    for (const line of page.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return page;
  }

  /** Logs in with the issuer, and returns the CSRF token of the session. */
  async logIn({ origin }: Pick<Api, 'origin'>): Promise<string> {
    const { url, page } = await this.get(`${origin}/console/login/start`);
    if (url !== `${origin}/console`) throw new Error(`no login: ${url} ${await page.text()}`);
    return csrfIn(await page.text());
  }
}

export function csrfIn(page: string): string {
  return /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? '';
}

/** The text of the notice on a page. */
export function noticeIn(page: string): string {
  return (/role="alert">([^]*?)<\/div>/.exec(page)?.[1] ?? '')
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
}
