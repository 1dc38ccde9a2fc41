class Request
  class << self
    attr_accessor :ip_filter

    octet = /[0-9]+/
    
    proxies = Regexp.union(
      /127/,
      /192/,
    )
    
    self.ip_filter = lambda { |ip| proxies.match?(ip) }
  end
end
