/**
 * What one would write without waybill: Express 5 and postgres.js, one SELECT, the row as JSON. Its port is
 * the first argument, its database the second.
 */
import express from 'express';
import postgres from 'postgres';

const [port, url] = process.argv.slice(2);
const sql = postgres(url ?? '', { max: 8, connection: { search_path: 'weather' } });

express()
  .get('/observations', async (req, res) => {
    const station = req.query['station'] as string;
    const [row] =
      await sql`select * from observations where station_id = ${station} order by observed_at desc limit 1`;
    res.json({ data: row ?? null });
  })
  .listen(Number(port), '127.0.0.1');
