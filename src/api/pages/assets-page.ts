import { WaybillError } from '../../core/lib/errors.ts';
import type { HttpPorts } from '../http/app.ts';
import { taggedAnswer, type TaggedAnswer } from '../http/answer/send-with-etag.ts';
import { assetOfFile, type Asset } from './assets.ts';
import type { PageRoute } from './page-route.ts';
import { sendPublic } from './send-page.ts';

const answers = new WeakMap<Asset, TaggedAnswer>();

/** Stylesheets and scripts, by names that change with their bytes. */
export const assetsPage: PageRoute<HttpPorts> = {
  method: 'get',
  path: '/assets/{asset}',
  isProbe: true,
  handle: () => (req: Parameters<typeof sendPublic>[0] & { params: { asset: string } }, res) => {
    const asset = assetOfFile(req.params.asset);
    if (asset === undefined)
      throw new WaybillError('not_found', 'there is no such stylesheet or script', {
        hint: 'load the page again: it may be of another version of waybill',
      });
    return sendPublic(req, res, answerOf(asset));
  },
};

function answerOf(asset: Asset): TaggedAnswer {
  let answer = answers.get(asset);
  if (answer === undefined) {
    answer = taggedAnswer(asset.mediaType, asset.body.toString(), {
      headers: { 'Cache-Control': 'public, max-age=31536000, immutable' },
      vary: 'Accept-Encoding',
    });
    answers.set(asset, answer);
  }
  return answer;
}
