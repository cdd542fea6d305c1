import { generateKeyPairSync } from 'node:crypto';

/** A mistake that people make, and how they meet it. */
export interface Mistake {
  /** Name in the golden file; unique. */
  name: string;
  /** Of `waybill`, without `--format`. By default `config check -c c.yml`. */
  args?: string[];
  /** `c.yml`, where it is needed. */
  config?: string;
  /** Further files by path; a function changes what lies at the place before waybill is started. */
  files?: Record<string, string | Buffer>;
  prepare?: (place: string) => void;
  env?: Record<string, string>;
  /** Runs without the rights of root. */
  unprivileged?: true;
  /** A command without `--format`: what it logs is all there is. */
  textOnly?: true;
  /** No file of the place is made, changed or removed. */
  writesNothing?: boolean;
  /** What every telling of it has to name, text and JSON: where it is, and what to do. */
  place: string;
  remedy: string;
}

/** The ports of what answers on this machine: web pages, nothing at all, and whatever has it already. */
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

/** A daemon that takes uploads; `more` are further lines of `server`. */
export const uploads = (more = ''): string => `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:0"}
${more}${to(local, '', 'backend: http_upload')}`;
export const token = 'a-token-of-these-tests-alone';
