import { generateKeyPairSync } from 'node:crypto';

/** A common mistake, and the command that reports it. */
export interface Mistake {
  /** The unique name in the golden file. */
  name: string;
  /** The arguments of `waybill`, without `--format`. Default: `config check -c c.yml`. */
  args?: string[];
  /** The content of `c.yml`, if needed. */
  config?: string;
  /** Further files by path. A function changes an existing file before waybill starts. */
  files?: Record<string, string | Buffer>;
  prepare?: (place: string) => void;
  env?: Record<string, string>;
  /** Whether it runs without root privileges. */
  unprivileged?: true;
  /** A command without `--format`, whose only output is the log. */
  textOnly?: true;
  /** Whether no file of the directory is created, changed or removed. */
  writesNothing?: boolean;
  /** Text that the output must contain, as text and JSON: the location and the fix. */
  place: string;
  remedy: string;
}

/** The ports of local servers: one with web pages, one that never answers, and one that is in use. */
export interface Servers {
  pages: number;
  closed: number;
  taken: number;
}

export const sshKey = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'pkcs1', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
}).privateKey;

/** A configuration with one pipeline, `maps`, whose destination has these settings. */
export function to(destination: string, more = '', source = 'backend: local, path: ./source'): string {
  return `${more}pipelines:
  - id: maps
    source: {${source}}
    destinations:
      - {id: web, ${destination}}
`;
}

export const local = 'backend: local, path: ./web';
export const s3 = (endpoint: string, more = ''): string =>
  to(
    `backend: s3, bucket: maps, region: eu-1, endpoint: "${endpoint}", access_key_id_env: KEY, secret_access_key_env: SECRET${more}`,
  );
export const keys = { KEY: 'AKIAEXAMPLE', SECRET: 'a-secret-access-key' };

/** A daemon that accepts uploads. `more` has further lines of `server`. */
export const uploads = (more = ''): string => `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:0"}
${more}${to(local, '', 'backend: http_upload')}`;
export const token = 'a-token-of-these-tests-alone';
