-- The Dashboard of Nikolov 2011, 2.1: shops pay for views of and clicks on their products.
CREATE TABLE categories (c_id INTEGER PRIMARY KEY, c_name VARCHAR(30) NOT NULL, c_parent INTEGER REFERENCES categories (c_id));
CREATE TABLE shops (s_id INTEGER PRIMARY KEY, s_name VARCHAR(30) NOT NULL);
CREATE TABLE address (
  ad_s_id INTEGER PRIMARY KEY REFERENCES shops (s_id), ad_street VARCHAR(40), ad_city VARCHAR(30), ad_province VARCHAR(30),
  ad_code VARCHAR(10), ad_country VARCHAR(30));
CREATE TABLE products (
  p_id INTEGER PRIMARY KEY, p_s_id INTEGER NOT NULL REFERENCES shops (s_id),
  p_c_id INTEGER NOT NULL REFERENCES categories (c_id), p_name VARCHAR(40), p_description VARCHAR(100), p_cluster INTEGER);
CREATE TABLE events (
  ev_id BIGINT PRIMARY KEY, ev_time TIMESTAMP NOT NULL, ev_p_id INTEGER NOT NULL REFERENCES products (p_id),
  ev_s_id INTEGER NOT NULL REFERENCES shops (s_id), ev_type VARCHAR(5) NOT NULL, ev_cost DECIMAL(10,2) NOT NULL);
